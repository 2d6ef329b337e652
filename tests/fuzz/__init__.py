"""Coverage-guided fuzzing of what comes from outside: frames and record batches."""
