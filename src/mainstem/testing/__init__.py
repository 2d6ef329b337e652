"""The testing package; see ARCHITECTURE.md for what it holds and what it may import."""
