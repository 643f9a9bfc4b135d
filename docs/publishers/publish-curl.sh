#!/bin/sh
# Sends one file to a gateway as a delivery: publish-curl.sh URL TOKEN-FILE SOURCE ID FILE
# The token goes through standard input: what is on the command line everybody on the machine can read.
printf 'header = "Authorization: Bearer %s"\n' "$(cat "$2")" |
  exec curl --config - --silent --show-error --fail-with-body --retry 5 --retry-all-errors --data-binary "@$5" \
    -H "ce-specversion: 1.0" -H "ce-type: offerlog.delivery.v1" -H "ce-source: $3" -H "ce-id: $4" \
    -H "content-type: application/json" "$1/v1/deliveries"
