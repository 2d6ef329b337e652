"""Histories of real clients against a log that is killed, and the checker that judges them."""
