"""The box for asking a view: one module for each kind, and what they share."""
