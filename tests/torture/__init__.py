"""What Spark writes to the log, while its processes and the log are killed, against the truth."""
