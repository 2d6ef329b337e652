"""Changes of PostgreSQL as topics, on a real server."""
