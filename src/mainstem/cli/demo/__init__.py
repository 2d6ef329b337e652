"""``mainstem demo``: a year of real flights through the log, Spark and the views."""
