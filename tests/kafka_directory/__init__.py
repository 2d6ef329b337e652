"""Tests of Kafka log directories, made and taken over; Apache Kafka itself runs on them."""
