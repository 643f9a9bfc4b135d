"""Writes one file to a topic as a delivery: python3 publish.py BROKER TOPIC SOURCE ID FILE"""
import sys
from confluent_kafka import Producer

broker, topic, source, id, file = sys.argv[1:]
failed = []
producer = Producer({"bootstrap.servers": broker, "enable.idempotence": True})
with open(file, "rb") as payload:
    producer.produce(topic, key=source, value=payload.read(), on_delivery=lambda error, _: error and failed.append(error), headers={
        "ce_specversion": "1.0", "ce_type": "offerlog.delivery.v1", "ce_source": source, "ce_id": id, "content-type": "application/json"})
if producer.flush(30) or failed:
    sys.exit(f"not published, try again under the same id: {failed}")
