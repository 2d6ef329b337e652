"""Where the objects of a backup lie.

* ``opening``: the store of a URL, and its probe
* ``store``: the port
* ``directory_store``: a directory
* ``cloud_store``: S3, Google Cloud Storage, Azure
"""
