"""Pages for a browser: the same few files for everybody, which give nothing away.

They need no token, because a browser that follows a link sends none. The page asks its reader for one, and with it asks
the routes under ``/v1`` for all that it shows: see ``api/pages/page.js``.
"""

from __future__ import annotations

import importlib.util
from functools import cache
from pathlib import Path

from fastapi import APIRouter, Response

from api.errors import Problem

FOLDER = Path(__file__).parents[1] / "pages"
PAGE, DOCS = "page.html", "docs.html"
SWAGGER_UI = ("fastapi_offline", "static", ("swagger-ui-bundle.js", "swagger-ui.css"))
"""The installed package that carries Swagger UI, its folder there, and what of it is served. None of it runs here."""
MEDIA_TYPES = {".html": "text/html", ".css": "text/css", ".js": "text/javascript", ".svg": "image/svg+xml"}
POLICY = "; ".join(
    (
        "default-src 'none'",
        "script-src 'self'",
        "style-src 'self'",
        "img-src 'self' blob:",
        "connect-src 'self'",
        "base-uri 'none'",
        "form-action 'none'",
        "frame-ancestors 'none'",
        "require-trusted-types-for 'script'",
    )
)
"""Only our own files run, nothing is inline, and text from the coordinator cannot become HTML."""
DOCS_POLICY = POLICY.replace("img-src 'self' blob:", "img-src 'self' blob: data:")
"""Swagger UI's style has its icons inside."""
router = APIRouter(include_in_schema=False)


@router.get("/")
@router.get("/queries/{name}")
@router.get("/trials/{name}")
@router.get("/optimizations/{name}")
def get_page() -> Response:
    """The page, for whatever it is about: its script looks at the address."""
    return _answer(PAGE)


@router.get("/docs")
def get_docs() -> Response:
    """The REST documentation, to be tried out."""
    return _answer(DOCS)


@router.get("/pages/{file}")
def get_file(file: str) -> Response:
    """A file that the page is made of."""
    if file in (PAGE, DOCS) or file not in _files():
        raise Problem("not-found", "there is no such file")
    return _answer(file)


def _answer(file: str) -> Response:
    headers = {"Content-Security-Policy": DOCS_POLICY if file == DOCS else POLICY}
    return Response(_files()[file], media_type=MEDIA_TYPES[Path(file).suffix], headers=headers)


@cache
def _files() -> dict[str, bytes]:
    """All files by name: read once, so that no name in an address ever reaches the file system."""
    own = {path.name: path.read_bytes() for path in FOLDER.rglob("*") if path.suffix in MEDIA_TYPES}
    package, folder, names = SWAGGER_UI
    spec = importlib.util.find_spec(package)
    assert spec is not None
    assert spec.origin is not None
    return own | {name: (Path(spec.origin).parent / folder / name).read_bytes() for name in names}
