"""Calls of functions that people give to stream interfaces: what they raise is theirs, and says so."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from gsdm_grid.errors import FunctionError, GsdmError
from gsdm_grid.functions import raised_by_user_code, trace_in_user_code
from gsdm_grid.interfaces.interface import EndOfStream


@contextmanager
def user_call(interface: str, function: Callable[..., Any]) -> Iterator[None]:
    """What the function raises in this block becomes a `FunctionError` that names it and the interface.

    Our own errors, and `EndOfStream`, pass.
    """
    try:
        yield
    except (EndOfStream, GsdmError):
        raise
    except BaseException as error:
        if not raised_by_user_code(error):
            raise
        raise FunctionError(interface, name_of(function), repr(error), trace_in_user_code(error)) from error


def name_of(function: Callable[..., Any]) -> str:
    """What a person calls the function."""
    return str(getattr(function, "__qualname__", function))
