"""Frames and messages of the Kafka protocol, without I/O: ``codec`` is the door, ``messages`` the declarations."""
