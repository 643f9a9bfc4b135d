# offerlog in an image that holds the static binary and what it reads from a system: certificates, time zones, two
# folders to write in. No container engine was at hand when this was written: it has been checked by tests that read it,
# and has never been built.
FROM golang:1.26.8-bookworm AS build
WORKDIR /src
COPY go.mod go.sum ./
RUN go mod download
COPY . .
RUN CGO_ENABLED=0 go build -trimpath -ldflags=-s -o /offerlog ./cmd/offerlog
RUN mkdir -p /root/var/tmp /root/var/lib/offerlog

FROM scratch
COPY --from=build /etc/ssl/certs/ca-certificates.crt /etc/ssl/certs/
COPY --from=build /usr/local/go/lib/time/zoneinfo.zip /usr/share/zoneinfo.zip
COPY --from=build --chown=65532:65532 /root/var/tmp /tmp
COPY --from=build --chown=65532:65532 /root/var/lib/offerlog /var/lib/offerlog
COPY --from=build /offerlog /usr/local/bin/offerlog
ENV ZONEINFO=/usr/share/zoneinfo.zip
USER 65532:65532
VOLUME /var/lib/offerlog
ENTRYPOINT ["/usr/local/bin/offerlog"]
