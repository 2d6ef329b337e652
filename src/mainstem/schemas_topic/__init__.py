"""The topic of the schema registry, for those who write it and those who only read it.

- ``state``: the topic's records as a state
- ``records``: the records
- ``record_names``: the names that schemas give their records
- ``subjects``: subjects and their contexts
- ``frames``: the schema ids in keys, values and headers of other topics
"""
