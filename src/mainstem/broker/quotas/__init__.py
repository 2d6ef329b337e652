"""Quotas: how much users and clients may send, read, keep busy and change, and how long they wait beyond that."""
