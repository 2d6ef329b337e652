"""The power-cut simulation: a model of a partition, seeded histories over it, and the faults that meet them."""
