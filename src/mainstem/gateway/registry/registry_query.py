"""The query parameters of the registry. One that is not known is left aside: clients send those of newer servers."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, Literal, TypeVar

from pydantic import BaseModel, ConfigDict, Field
from starlette.requests import Request

from mainstem.gateway.registry.registry_json import CONTEXT
from mainstem.registry.associations import AssociationFilter
from mainstem.registry.names import EVERY_CONTEXT
from mainstem.schemas_topic.subjects import split_subject

SCHEMAS_MAX: Final = 1_000
SUBJECTS_MAX: Final = 20_000
_Item = TypeVar("_Item")


class RegistryQuery(BaseModel):
    """The parameters of a route that has none of its own."""

    model_config = ConfigDict(extra="ignore")


class PageQuery(RegistryQuery):
    """A part of a list."""

    offset: int = Field(0, ge=0, description="leave out so many at the beginning")
    limit: int = Field(-1, ge=-1, description="answer at most so many; -1 for as many as the server allows")

    def page(self, items: Sequence[_Item], most: int) -> list[_Item]:
        """The part of ``items`` that is asked for; never more than ``most``."""
        count = most if self.limit < 0 else min(self.limit, most)
        return list(items[self.offset : self.offset + count])


class DeletedQuery(PageQuery):
    """Lists that may have what is soft-deleted."""

    deleted: bool = Field(False, description="include what is soft-deleted")
    deletedOnly: bool = Field(False, description="only what is soft-deleted")  # noqa: N815  # the API's name


class SubjectsQuery(DeletedQuery):
    """Which subjects."""

    subjectPrefix: str = Field(":*:", max_length=1024, description="`:*:` for every context, `:.lab:` for one")  # noqa: N815


class SchemasQuery(SubjectsQuery):
    """Which schemas."""

    latestOnly: bool = Field(False, description="only the latest version of each subject")  # noqa: N815


class SchemaQuery(RegistryQuery):
    """How a schema is answered."""

    format: str = Field("", max_length=100, description="`serialized`, `resolved`, or nothing for the stored text")
    subject: str = Field("", max_length=1024, description="a subject, or `:.lab:`, whose context is meant")
    deleted: bool = Field(False, description="also what is soft-deleted")
    fetchMaxId: bool = Field(False, description="add `maxId`, the greatest id of the context")  # noqa: N815


class UsesQuery(DeletedQuery):
    """Which users of an id."""

    subject: str = Field("", max_length=1024, description="a subject, or `:.lab:`, whose context is meant")


class MetadataQuery(SchemaQuery):
    """A version by properties of its metadata: ``key`` and ``value``, each as often as needed."""

    key: list[str] = Field([], max_length=100)
    value: list[str] = Field([], max_length=100)


class RegisterQuery(RegistryQuery):
    """How a schema is registered, looked up or compared."""

    normalize: bool = Field(False, description="make one what differs in spelling alone")
    deleted: bool = Field(False, description="look also among what is soft-deleted")
    verbose: bool = Field(False, description="say why schemas are not compatible")
    format: str = Field("", max_length=100, description="`serialized`, `resolved`, or nothing for the stored text")


class DeleteQuery(RegistryQuery):
    """How something is deleted."""

    permanent: bool = Field(False, description="for good; it has to be soft-deleted before")
    recursive: bool = Field(False, description="also the settings of the context's subjects")


class SettingQuery(RegistryQuery):
    """How a setting is read or changed."""

    defaultToGlobal: bool = Field(False, description="answer what holds, where nothing is set")  # noqa: N815
    force: bool = Field(False, description="set IMPORT although there are schemas")


class DereferenceQuery(RegistryQuery):
    """How Apicurio's clients take a schema's text."""

    references: str = Field("", max_length=100, description="`DEREFERENCE` for the text with its references in it")


class CreateArtifactQuery(RegistryQuery):
    """How Apicurio's clients register a schema."""

    ifExists: Literal["FAIL", "CREATE_VERSION", "FIND_OR_CREATE_VERSION"] = Field(  # noqa: N815  # the API's name
        "FAIL", description="`FIND_OR_CREATE_VERSION`, or `FAIL` if the artifact must be new"
    )
    canonical: bool = Field(False, description="make one what differs in spelling alone")
    dryRun: bool = Field(False, description="not supported")  # noqa: N815


class ContentSearchQuery(RegistryQuery):
    """Where Apicurio's clients look for a content."""

    artifactId: str = Field(min_length=1, max_length=1024)  # noqa: N815
    artifactType: str = Field(max_length=100, description="`AVRO`, `JSON` or `PROTOBUF`")  # noqa: N815
    groupId: str = Field("default", max_length=1024, description="the group: only `default` exists")  # noqa: N815
    canonical: bool = Field(False, description="make one what differs in spelling alone")


class AssociationsQuery(PageQuery):
    """Which associations."""

    resourceType: str = Field("", max_length=1024)  # noqa: N815  # the API's name
    associationType: list[str] = Field([], max_length=100, description="`key` or `value`")  # noqa: N815
    lifecycle: str = Field("", max_length=100, description="`STRONG` or `WEAK`")

    def filter(self) -> AssociationFilter:
        """The associations that are meant."""
        return AssociationFilter(self.resourceType, tuple(self.associationType), self.lifecycle)


class DeleteAssociationsQuery(AssociationsQuery):
    """Which associations are deleted, and how."""

    cascadeLifecycle: bool = Field(False, description="also frozen ones, and subjects of `STRONG` ones")  # noqa: N815
    dryRun: bool = Field(False, description="check the request, and change nothing")  # noqa: N815


class AssociateQuery(RegistryQuery):
    """How associations are made."""

    context: str = Field("", max_length=1024, description="the context of subjects that name none")
    dryRun: bool = Field(False, description="check the request, and change nothing")  # noqa: N815


def subjects_asked_for(query: SubjectsQuery, request: Request) -> tuple[str | None, str]:
    """The context that is asked for (None: every one), and the beginning of the subjects' names in it."""
    if CONTEXT in request.scope:
        return str(request.scope[CONTEXT]), ""
    if query.subjectPrefix.startswith(EVERY_CONTEXT):
        return None, query.subjectPrefix.removeprefix(EVERY_CONTEXT)
    return split_subject(query.subjectPrefix)
