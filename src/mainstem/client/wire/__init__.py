"""The Kafka protocol over plain sockets, synchronously, for what librdkafka cannot hand out."""
