"""HTTP: append, read, and ask the views. The only package that knows the web framework."""
