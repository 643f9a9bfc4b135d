import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.Map;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.common.serialization.ByteArraySerializer;
import org.apache.kafka.common.serialization.StringSerializer;

/** Writes one file to a topic as a delivery: java -cp "kafka-clients/*" Publish.java BROKER TOPIC SOURCE ID FILE */
class Publish {
  public static void main(String[] args) throws Exception {
    var attributes = Map.of("ce_specversion", "1.0", "ce_type", "offerlog.delivery.v1", "ce_source", args[2], "ce_id", args[3], "content-type", "application/json");
    var delivery = new ProducerRecord<>(args[1], args[2], Files.readAllBytes(Path.of(args[4])));
    attributes.forEach((name, value) -> delivery.headers().add(name, value.getBytes(StandardCharsets.UTF_8)));
    try (var producer = new KafkaProducer<>(Map.<String, Object>of("bootstrap.servers", args[0], "acks", "all"), new StringSerializer(), new ByteArraySerializer())) {
      producer.send(delivery).get(); // fails where the broker does not have it: publish again under the same id
    }
  }
}
