#!/bin/sh
# Writes one file to a topic as a delivery: publish-kcat.sh BROKER TOPIC SOURCE ID FILE
exec kcat -P -b "$1" -t "$2" -k "$3" -X enable.idempotence=true \
  -H ce_specversion=1.0 -H ce_type=offerlog.delivery.v1 -H "ce_source=$3" -H "ce_id=$4" -H content-type=application/json "$5"
