"""One file for each API, named after it: its versions and its deliberate gaps are at the top."""
