"""Kernels compiled by numba.

* ``native_kernel``: compiles kernels and keeps them on disk
* ``native_varint``: numbers as varints
* ``native_walk``: walks the records of a batch
* ``native_check``: the check of a producer's records
* ``kept_code``: compiled functions in files, so that a process need not load numba; ``walk_code``: the check as one
* ``native_decode``: batches to columns
* ``native_encode``: columns to batches, and Kafka's key hash
* ``native_compact``: the latest offset of each key
* ``native_json``: finds the fields of JSON objects
* ``native_json_cells``: JSON fields to numbers, times and text
* ``native_avro``: Avro values to columns
* ``native_avro_encode``: columns to Avro values
* ``native_protobuf``: Protobuf messages to columns
* ``native_protobuf_encode``: columns to Protobuf messages
"""
