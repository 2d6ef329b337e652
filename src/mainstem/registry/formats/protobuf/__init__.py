"""Protobuf.

- ``protobuf_format``: the format, as the registry sees it
- ``protobuf_compiler``: runs the compiler
- ``protobuf_text``: descriptors as text
- ``protobuf_compatibility``: which schema reads data of which
- ``imports``: files that every schema may import
"""
