"""A lake's files: an Iceberg table of a topic's records whose snapshots say up to which position they go."""
