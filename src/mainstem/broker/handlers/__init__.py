"""One file for each API, named after it: its versions and its deliberate gaps stand at the top."""
