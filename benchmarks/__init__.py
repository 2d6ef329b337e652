"""Mainstem beside its peers, in one run: ratios, medians and spread."""
