"""Lists in pages: a cursor says after which item the next page begins, so pages stay right while lists change."""

from __future__ import annotations

import base64
import binascii
from collections.abc import Callable, Iterable
from typing import Annotated, Any, TypeVar

from fastapi import Query

from api.errors import Problem

T = TypeVar("T")
Limit = Annotated[int, Query(ge=1, le=500, description="Items on a page.")]
PageCursor = Annotated[str | None, Query(max_length=400, description="The member `next` of the page before.")]


def page(items: Iterable[T], key: Callable[[T], str], limit: int, cursor: str | None) -> dict[str, Any]:
    """The items after the cursor in the order of their keys, and the cursor for those that follow."""
    after = None if cursor is None else after_cursor(cursor)
    rest = sorted((item for item in items if after is None or key(item) > after), key=key)
    return {"items": rest[:limit], "next": cursor_after(key(rest[limit - 1])) if len(rest) > limit else None}


def cursor_after(key: str) -> str:
    """The cursor of what follows this key."""
    return base64.urlsafe_b64encode(key.encode()).decode().rstrip("=")


def after_cursor(cursor: str) -> str:
    """The key that a cursor stands for."""
    try:
        return base64.b64decode(cursor + "=" * (-len(cursor) % 4), altchars=b"-_", validate=True).decode()
    except (binascii.Error, ValueError):
        raise Problem("invalid-request", f"cursor: {cursor[:80]!r} was not made here") from None
