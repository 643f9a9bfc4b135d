// Command publishers writes one file to a topic as a delivery: go run ./docs/publishers BROKER TOPIC SOURCE ID FILE
package main

import (
	"context"
	"log"
	"os"

	"github.com/twmb/franz-go/pkg/kgo"
)

func main() {
	broker, topic, source, id, file := os.Args[1], os.Args[2], os.Args[3], os.Args[4], os.Args[5]
	payload, err := os.ReadFile(file)
	if err != nil {
		log.Fatal(err)
	}
	producer, err := kgo.NewClient(kgo.SeedBrokers(broker))
	if err != nil {
		log.Fatal(err)
	}
	defer producer.Close()
	err = producer.ProduceSync(context.Background(), &kgo.Record{Topic: topic, Key: []byte(source), Value: payload, Headers: []kgo.RecordHeader{
		{Key: "ce_specversion", Value: []byte("1.0")},
		{Key: "ce_type", Value: []byte("offerlog.delivery.v1")},
		{Key: "ce_source", Value: []byte(source)},
		{Key: "ce_id", Value: []byte(id)},
		{Key: "content-type", Value: []byte("application/json")},
	}}).FirstErr()
	if err != nil {
		log.Panic(err) // publish again under the same id: a copy too many does no harm
	}
}
