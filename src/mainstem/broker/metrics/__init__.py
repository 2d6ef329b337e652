"""What the log process counts and measures, and how it is read: Prometheus' text format on a Unix socket."""
