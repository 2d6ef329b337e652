"""One seeded sequence of requests to Mainstem and to a real Apache Kafka; their answers must be equal.

``requests`` is the form of a request that names what earlier answers brought; ``plans`` and the modules beside it make
sequences of a seed; ``peer`` is one broker's side; ``answers`` normalises and compares; ``play`` plays a sequence
against both brokers; ``shrink`` drops the requests that a difference does not need; ``run`` is the command.
"""
