"""Verifiable logs: what the log, its clients and a verifier without a server share. C2SP's formats, none of our own.

* ``merkle``: RFC 9162's hashes and proofs
* ``tiles``: tlog-tiles' paths, tiles and bundles; a tree's hashes, read from its tiles
* ``leaf``: the entry of a record batch
* ``notes``: signed notes, and the Ed25519 keys that sign and verify them
* ``checkpoints``: the text of a checkpoint, signed and verified
* ``cosignatures``: what witnesses have signed
* ``base64_text``: base64 in one form only
* ``key_file``: the node's signing keys
* ``proofs``: a proof in a file (tlog-proof): made, written, read and verified
"""
