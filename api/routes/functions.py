"""Functions, templates, and the bundles of code that bring them, over REST."""

from __future__ import annotations

from typing import Annotated, Any

from anyio import to_thread
from fastapi import APIRouter, Path, Query, Request, Response

from api.errors import Problem, responses
from api.http import Admin, Limit, PageCursor, Viewer, media_type_of, page
from api.registry import MEDIA_TYPES, PYTHON, ZIP
from api.registry import NAME as BUNDLE_NAME
from api.schemas import (
    FUNCTION_NAME,
    BundleDocument,
    BundlePage,
    BundleVersions,
    FunctionDocument,
    FunctionPage,
    TemplateDocument,
    TemplatePage,
)
from api.services import WithServices
from gsdm_grid.errors import GsdmError
from gsdm_grid.flow import TEMPLATES
from gsdm_grid.functions import FunctionKind, functions

COMMON = ("unauthorized", "forbidden", "invalid-request")
router = APIRouter(prefix="/v1", tags=["functions"])
FunctionName = Annotated[str, Path(pattern=FUNCTION_NAME)]
BundleName = Annotated[str, Path(pattern=BUNDLE_NAME)]
UPLOAD: dict[str, Any] = {
    "requestBody": {
        "required": True,
        "description": "One Python module, or a zip archive of a pure Python package, perhaps with requirements.txt.",
        "content": {
            PYTHON: {"schema": {"type": "string"}},
            ZIP: {"schema": {"type": "string", "format": "binary"}},
        },
    }
}


@router.get("/functions", responses=responses(*COMMON))
def list_functions(
    _token: Viewer,
    kind: Annotated[FunctionKind | None, Query(description="Only functions of this kind.")] = None,
    limit: Limit = 100,
    cursor: PageCursor = None,
) -> FunctionPage:
    """Functions by name, with their signatures and valid parallel strategies."""
    shown = [found for name in functions.names() if (found := _found(name)) is not None]
    wanted = [one for one in shown if kind is None or one.kind == kind]
    return FunctionPage(**page(wanted, lambda one: one.name, limit, cursor))


@router.get("/functions/{name}", responses=responses(*COMMON, "not-found"))
def get_function(name: FunctionName, _token: Viewer) -> FunctionDocument:
    """One function."""
    found = _found(name) if name in functions.names() else None
    if found is None:
        raise Problem("not-found", f"there is no function {name!r}")
    return found


def _found(name: str) -> FunctionDocument | None:
    """A function by name; None if it is an installed package's that does not work."""
    try:
        function = functions.get(name)
    except GsdmError:
        return None
    origin = {key: function.metadata.get(key) for key in ("bundle", "version")}
    return FunctionDocument.model_validate({**function.describe(), "name": name, **origin})


@router.get("/templates", responses=responses(*COMMON))
def list_templates(_token: Viewer, limit: Limit = 100, cursor: PageCursor = None) -> TemplatePage:
    """Templates by name, with what they take: constructors of data flows, to be named in a query's flow."""
    shown = [one for name in TEMPLATES.names() if (one := _template(name)) is not None]
    return TemplatePage(**page(shown, lambda one: one.name, limit, cursor))


@router.get("/templates/{name}", responses=responses(*COMMON, "not-found"))
def get_template(name: FunctionName, _token: Viewer) -> TemplateDocument:
    """One template."""
    if (template := _template(name)) is None:
        raise Problem("not-found", f"there is no template {name!r}")
    return template


def _template(name: str) -> TemplateDocument | None:
    """A template by name; None if there is none, or it is an installed package's that does not work."""
    try:
        template = TEMPLATES.find(name)
    except GsdmError:
        return None
    if template is None:
        return None
    origin = {key: template.metadata.get(key) for key in ("bundle", "version")}
    return TemplateDocument.model_validate({**template.describe(), "name": name, **origin})


@router.get("/bundles", tags=["bundles"], responses=responses(*COMMON))
def list_bundles(services: WithServices, _token: Viewer, limit: Limit = 100, cursor: PageCursor = None) -> BundlePage:
    """The latest version of each bundle."""
    return BundlePage(**page(services.bundles.list(), lambda one: str(one["name"]), limit, cursor))


@router.put(
    "/bundles/{name}",
    tags=["bundles"],
    status_code=201,
    openapi_extra=UPLOAD,
    responses={
        **responses(*COMMON, "too-large", "unsupported-media-type"),
        **responses("function-failed", "unmet-requirement", "invalid-request"),
        **responses("no-resources"),
        200: {"model": BundleDocument, "description": "The latest version has this content already"},
    },
)
async def upload_bundle(
    name: BundleName, request: Request, response: Response, services: WithServices, token: Admin
) -> BundleDocument:
    """Upload function code as the next version of a bundle.

    What it requires (``requirements.txt`` in the archive, or inline script metadata in a module) is installed first.
    """
    media_type = media_type_of(request, MEDIA_TYPES)
    content = await request.body()
    made, new = await to_thread.run_sync(services.bundles.upload, name, media_type, content, token.id)
    response.status_code = 201 if new else 200
    response.headers["Location"] = f"/v1/bundles/{name}"
    return BundleDocument.model_validate(made)


@router.get("/bundles/{name}", tags=["bundles"], responses=responses(*COMMON, "not-found"))
def get_bundle(name: BundleName, services: WithServices, _token: Viewer) -> BundleVersions:
    """A bundle with its versions."""
    return BundleVersions.model_validate(services.bundles.get(name))


@router.delete(
    "/bundles/{name}", tags=["bundles"], status_code=204, responses=responses(*COMMON, "not-found", "in-use")
)
def remove_bundle(name: BundleName, services: WithServices, _token: Admin) -> None:
    """Remove a bundle that no query uses."""
    services.bundles.remove(name)
