"""The schema registry over HTTP, under ``/registry`` or at the root of an address of its own.

It has Confluent's REST API, and of Apicurio's what its serializers send.

- ``subject_routes``: subjects, versions and compatibility
- ``schema_routes``: schemas by id, contexts and what the server says of itself
- ``setting_routes``: configs and modes
- ``association_routes``: subjects of topics
- ``apicurio_routes``: what Apicurio's serializers ask for
- ``apicurio_json``: its bodies, answers and errors
- ``registry_errors``: the forms of errors
- ``registry_query``: query parameters
- ``registry_json``: media types, bodies and answers
- ``registry_answers``: the answers and bodies in the description of the API
- ``registry_paths``: contexts in paths, and the one form of errors
- ``registry_app``: an app of the registry alone
"""
