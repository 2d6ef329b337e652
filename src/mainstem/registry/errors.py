"""The registry's errors: an HTTP status, and the code that clients of Confluent's registry know.

The codes are those of the Schema Registry's REST API. The body of an error answer has ``error_code`` and ``message``,
and nothing else: Java's client refuses a body with any other field.
"""

from __future__ import annotations

from mainstem.errors import InputError


class RegistryError(InputError):
    """A request that the registry refuses. ``code // 100`` is the HTTP status where the code has five digits."""

    def __init__(self, code: int, message: str) -> None:
        super().__init__(message)
        self.code = code

    @property
    def status(self) -> int:
        """The HTTP status."""
        return self.code // 100 if self.code >= 1000 else self.code


def subject_not_found(subject: str) -> RegistryError:
    """No version of this subject is there."""
    return RegistryError(40401, f"Subject '{subject}' not found.")


def subject_exists(subject: str) -> RegistryError:
    """The subject has a version already, and the client wants to make the first."""
    return RegistryError(409, f"Subject '{subject}' exists already.")


def version_not_found(version: object) -> RegistryError:
    """The subject has no such version."""
    return RegistryError(40402, f"Version {version} not found.")


def schema_not_found(which: object = None) -> RegistryError:
    """No schema with this id, or like this one, is there."""
    return RegistryError(40403, "Schema not found" if which is None else f"Schema {which} not found")


def subject_soft_deleted(subject: str) -> RegistryError:
    """A soft-deleted subject is deleted softly again."""
    return RegistryError(40404, f"Subject '{subject}' was soft deleted. Set permanent=true to delete permanently")


def subject_not_soft_deleted(subject: str) -> RegistryError:
    """A subject is deleted for good, and was not soft-deleted before."""
    return RegistryError(40405, f"Subject '{subject}' was not deleted first before being permanently deleted")


def version_soft_deleted(subject: str, version: int) -> RegistryError:
    """A soft-deleted version is deleted softly again."""
    text = f"Subject '{subject}' Version {version} was soft deleted. Set permanent=true to delete permanently"
    return RegistryError(40406, text)


def version_not_soft_deleted(subject: str, version: int) -> RegistryError:
    """A version is deleted for good, and was not soft-deleted before."""
    text = f"Subject '{subject}' Version {version} was not deleted first before being permanently deleted"
    return RegistryError(40407, text)


def config_not_found(subject: str) -> RegistryError:
    """The subject has no config of its own."""
    return RegistryError(40408, f"Subject '{subject}' does not have subject-level compatibility configured")


def mode_not_found(subject: str) -> RegistryError:
    """The subject has no mode of its own."""
    return RegistryError(40409, f"Subject '{subject}' does not have subject-level mode configured")


def incompatible(details: str) -> RegistryError:
    """A schema that breaks the subject's compatibility level: 409 and 40901, as the Schema Registry 8 answers."""
    return RegistryError(40901, details)


def invalid_schema(details: str) -> RegistryError:
    """The schema, its type, its references or its number is wrong."""
    return RegistryError(42201, details)


def invalid_version(version: object) -> RegistryError:
    """This is not a version."""
    return RegistryError(
        42202,
        f"The specified version '{version}' is not a valid version id. Allowed values are between [1, 2^31-1] and the "
        'string "latest"',
    )


def not_permitted(details: str) -> RegistryError:
    """The mode of the subject does not allow this."""
    return RegistryError(42205, details)


def referenced(subject: str, version: int) -> RegistryError:
    """Another schema refers to this version, so it stays."""
    return RegistryError(42206, f"One or more references exist to the schema of subject '{subject}', version {version}")
