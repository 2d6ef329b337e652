"""The processes of one machine: what they are, and what starts, watches and stops them."""
