"""Documents of what people register, as OpenAPI describes them. Those about queries are in `query_schemas`."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field

from gsdm_grid.spec import Name, OrderMember

TYPE_NAME = r"^[A-Za-z][A-Za-z0-9_]{0,62}$"
FUNCTION_NAME = r"^[A-Za-z][A-Za-z0-9_.@-]{0,159}$"

TypeName = Annotated[str, Field(pattern=TYPE_NAME)]
AttributeText = Annotated[str, Field(min_length=1, max_length=100)]
RoleName = Literal["viewer", "operator", "admin"]


class _Posted(BaseModel):
    model_config = ConfigDict(extra="forbid")


class PostedType(_Posted):
    """A new stream type."""

    name: TypeName
    under: TypeName = Field("Stream", description="The type whose attributes it inherits.")
    attributes: dict[TypeName, AttributeText] = Field(
        max_length=256, examples=[{"gain": "float32", "x": "vector[8192] of complex64"}]
    )


class PostedSource(_Posted):
    """Where an input stream comes from."""

    name: Name
    type: TypeName
    interface: Annotated[str, Field(min_length=1, max_length=255)]
    options: dict[str, Any] = Field(default_factory=dict)
    shared: bool | None = Field(
        None,
        description="Whether queries that run at the same time read it once, together. If not given: where it cannot "
        "be opened twice, such as a port that is listened on.",
    )
    order: OrderMember | None = Field(None, description="In which order of time its windows come.")


class PostedSink(_Posted):
    """Where a result stream goes; its type is derived unless given."""

    name: Name
    type: TypeName | None = None
    interface: Annotated[str, Field(min_length=1, max_length=255)]
    options: dict[str, Any] = Field(default_factory=dict)


class PostedToken(_Posted):
    """A new token."""

    name: Name
    role: RoleName
    lifetime_s: float | None = Field(
        None, gt=0, le=3.2e9, description="How long it is valid; until it is revoked if not given."
    )


class TypeDocument(BaseModel):
    """A stream type."""

    name: str
    under: str | None
    attributes: dict[str, str] = Field(description="Its own attributes.")
    inherited: dict[str, str]
    builtin: bool = Field(description="Whether it comes with an installed package or a bundle.")


class TypePage(BaseModel):
    """Some stream types, by name; ``next`` is the cursor of the following page."""

    items: list[TypeDocument]
    next: str | None


class ParameterDocument(BaseModel):
    """A parameter of a function."""

    name: str
    required: bool
    default: str | None = None


class FunctionDocument(BaseModel):
    """A stream query function: its signature and the valid ways to run it in parallel."""

    name: str
    kind: str
    input: str
    output: str
    parameters: list[ParameterDocument]
    whole: bool
    uses_neighbours: bool
    strategies: list[dict[str, Any]]
    doc: str
    bundle: str | None = None
    version: int | None = None


class TemplateDocument(BaseModel):
    """A template: a constructor of data flows, with what it takes."""

    name: str
    parameters: list[ParameterDocument]
    doc: str
    bundle: str | None = None
    version: int | None = None


class TemplatePage(BaseModel):
    """Some templates, by name."""

    items: list[TemplateDocument]
    next: str | None


class FunctionPage(BaseModel):
    """Some functions, by name."""

    items: list[FunctionDocument]
    next: str | None


class BundleDocument(BaseModel):
    """One version of uploaded function code."""

    name: str
    version: int
    functions: list[str]
    templates: list[str] = Field(description="Constructors of data flows that it brings, while it is loaded.")
    interfaces: list[str] = Field(description="Stream interfaces that it brings, while it is loaded.")
    media_type: str
    digest: str
    created: float
    requirements: list[str] = Field(description="What its code requires beside the grid's environment.")
    packages: list[str] = Field(description="What was installed for it, as name==version.")
    error: str | None = Field(None, description="Why it could not be loaded at start.")


class BundleVersions(BundleDocument):
    """The latest version of a bundle, and all versions, the newest first."""

    versions: list[BundleDocument]


class BundlePage(BaseModel):
    """The latest versions of some bundles, by name."""

    items: list[BundleDocument]
    next: str | None


class InterfaceDocument(BaseModel):
    """A stream interface."""

    name: str
    options: list[str] | None = Field(description="Names of its options; null takes any.")
    type: str = Field(description="Stream type whose windows it can carry, and those of its subtypes.")
    source: bool
    sink: bool
    local: bool = Field(description="Whether it holds objects of one process, and so cannot be submitted.")
    replayable: bool
    doc: str


class InterfacePage(BaseModel):
    """Some stream interfaces, by name."""

    items: list[InterfaceDocument]
    next: str | None


class StreamDocument(BaseModel):
    """A registered source or sink."""

    name: str
    type: str | None
    interface: str
    options: dict[str, Any]
    shared: bool = Field(False, description="Whether queries read a source together.")
    order: str | dict[str, Any] | None = Field(None, description="In which order of time its windows come.")
    created: float


class StreamPage(BaseModel):
    """Some sources or sinks, by name."""

    items: list[StreamDocument]
    next: str | None


class TokenDocument(BaseModel):
    """A token, without its secret."""

    id: str
    name: str
    role: RoleName
    created: float
    expires: float | None


class NewTokenDocument(TokenDocument):
    """A token that was just made."""

    token: str = Field(description="The secret. It is shown this once.")


class TokenPage(BaseModel):
    """Some tokens, by name."""

    items: list[TokenDocument]
    next: str | None


class Health(BaseModel):
    """That the service answers."""

    status: Literal["ok", "ready"]
