"""Scenarios of hostile input against processes of their own, while a well-behaved client is served."""
