"""Record batches (Kafka's format, magic 2): read, write, verify, compress, and decode natively to Arrow. No I/O."""
