"""What may be given as a routing or broadcasting function, and how it is called. What it returns: see `routing`."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from gsdm_grid.errors import FlowError, FunctionError, QueryError
from gsdm_grid.expressions import Expression, TupleFault
from gsdm_grid.functions.registry import FUNCTION, functions, resolve
from gsdm_grid.functions.sqf import StreamFunction, sqf
from gsdm_grid.functions.user_code import raised_by_user_code, trace_in_user_code
from gsdm_grid.model import PhysicalWindow, StreamType, cut

Route = str | Callable[..., Any] | StreamFunction | Mapping[str, Any] | None
Values = tuple[NDArray[Any], "NDArray[np.bool_] | None"]

_NAME = re.compile(r"\w+(@\d+)?(\.\w+)?")  # of a registered function, or of one in a bundle


def per_tuple(code: Callable[..., Any]) -> StreamFunction:
    """Mark a plain Python function over single tuples, for use as ``rfn`` or ``bfn``."""
    return sqf(kind="routing", register=False)(code)


def route_value(given: Route, place: str) -> Any:
    """A routing or broadcasting function as a parameter of a vertex: text for an expression, else a function.

    Text that names a registered routing function, or a path ``package.module:function``, stands for that function.
    """
    if given is None or isinstance(given, StreamFunction):
        return _checked_kind(given, place)
    if isinstance(given, str):
        named = ":" in given and given.replace(":", "").replace(".", "").replace("_", "").isalnum()
        if named or (_NAME.fullmatch(given) and functions.has(given) and functions.get(given).kind == "routing"):
            return _checked_kind(functions.get(given), place)
        Expression(given, place)
        return given
    if isinstance(given, Mapping):
        return _from_document(given, place)
    if callable(given):
        return sqf(kind="routing", whole=True, register=False)(given)
    raise FlowError(place, f"expected an expression, a function or its name, got {type(given).__name__}")


def _from_document(given: Mapping[str, Any], place: str) -> Any:
    if FUNCTION in given:
        return dict(given)
    if set(given) == {"expression"}:
        Expression(str(given["expression"]), place)
        return str(given["expression"])
    if "function" not in given or set(given) - {"function", "params"}:
        raise FlowError(place, f"expected {{expression}} or {{function, params}}, got {', '.join(map(str, given))}")
    function = _checked_kind(functions.get(given["function"]), place)
    params = {**dict(given.get("params") or {})}
    function.bind({**dict.fromkeys(["w"] if _takes_w(function) else [], 1), **params}, place)
    return {"function": function, "params": params}


def _checked_kind(given: StreamFunction | None, place: str) -> Any:
    if given is not None and given.kind != "routing":
        raise FlowError(place, f"expected a function of kind 'routing', got {given.name!r} ({given.kind})")
    return given


class Evaluator:
    """One of the two functions: gives an array over the tuples of a block, and where there is a value."""

    name: str
    slow = False

    def values(self, block: PhysicalWindow, skip: NDArray[np.bool_] | None) -> Values:
        """Values of all tuples; those of skipped tuples are not heeded."""
        raise NotImplementedError


def evaluator(given: Any, role: str, stream_type: StreamType, total: int, vertex: str) -> Evaluator:
    """One of the two functions, checked against the type of the tuples."""
    if isinstance(given, str):
        return _Expression(given, role, stream_type, total, vertex)
    params: Mapping[str, Any] = {}
    if isinstance(given, Mapping):
        params = given.get("params") or {}
        inner = given.get("function", given)
        given = inner if isinstance(inner, StreamFunction) else resolve(inner[FUNCTION])
    function: StreamFunction = _checked_kind(given, role)
    if not stream_type.is_under(function.input):
        raise QueryError(
            f"{role} {function.name!r} takes tuples of {function.input.name!r}, not of {stream_type.name!r}"
        )
    given_w = {"w": total} if _takes_w(function) else {}
    bound = function.bind({**given_w, **params}, f"{role} {function.name!r}")
    return (_OverColumns if function.whole else _PerTuple)(function, bound, vertex)


class _Expression(Evaluator):
    def __init__(self, text: str, role: str, stream_type: StreamType, total: int, vertex: str) -> None:
        self.name, self._vertex = text, vertex
        self._checked = Expression(text, role).checked(stream_type, {"w": total})
        wanted = ("whole number", "truth value") if role == "rfn" else ("truth value",)
        if self._checked.kind not in (*wanted, "nothing"):
            hint = "; take int(…) or //" if role == "rfn" and self._checked.kind == "number" else ""
            raise FlowError(f"{role} {text!r}", f"is a {self._checked.kind}, where a {wanted[0]} is needed{hint}")

    def values(self, block: PhysicalWindow, skip: NDArray[np.bool_] | None) -> Values:  # noqa: ARG002
        try:
            return self._checked.evaluate(block)
        except TupleFault as fault:
            cause = f"{tuple_text(block, fault.row)}: {fault.reason}"
            raise FunctionError(self._vertex, self.name, cause) from None


class _OverColumns(Evaluator):
    def __init__(self, function: StreamFunction, params: Mapping[str, Any], vertex: str) -> None:
        self.name, self._function, self._params, self._vertex = function.name, function, params, vertex

    def values(self, block: PhysicalWindow, skip: NDArray[np.bool_] | None) -> Values:  # noqa: ARG002
        try:
            made = self._function.code(block, **self._params)
        except BaseException as error:
            if not raised_by_user_code(error):
                raise
            raise self._failure(block, error) from error
        present = None
        if isinstance(made, np.ma.MaskedArray):
            mask = np.ma.getmaskarray(made)
            made, present = made.data, ~mask
        array = np.asarray(made)
        if array.shape != (len(block),):
            cause = f"returned values of shape {array.shape} for {len(block)} tuples"
            raise FunctionError(self._vertex, self.name, cause)
        return array, present

    def _failure(self, block: PhysicalWindow, error: BaseException) -> FunctionError:
        """The error, with the first tuple that alone makes the function raise, if there is one: halves are tried."""
        start, stop, cause = 0, len(block), error
        while stop - start > 1:
            middle = (start + stop) // 2
            half = self._raised(cut(block, start, middle))
            if half is not None:
                stop, cause = middle, half
                continue
            half = self._raised(cut(block, middle, stop))
            if half is None:
                break
            start, cause = middle, half
        if stop - start == 1:
            where = tuple_text(block, start)
        else:
            where = f"tuples {block.ordinals[start]}…{block.ordinals[stop - 1]}"
        reason = f"{where}: {type(cause).__name__}: {cause}"
        return FunctionError(self._vertex, self.name, reason, trace_in_user_code(cause))

    def _raised(self, block: PhysicalWindow) -> BaseException | None:
        try:
            self._function.code(block, **self._params)
        except BaseException as error:
            if not raised_by_user_code(error):
                raise
            return error
        return None


class _PerTuple(Evaluator):
    slow = True

    def __init__(self, function: StreamFunction, params: Mapping[str, Any], vertex: str) -> None:
        self.name, self._function, self._params, self._vertex = function.name, function, params, vertex

    def values(self, block: PhysicalWindow, skip: NDArray[np.bool_] | None) -> Values:
        made = np.empty(len(block), object)
        for row in range(len(block)):
            if skip is not None and skip[row]:
                continue
            try:
                made[row] = self._function.code(block[row], **self._params)
            except BaseException as error:
                if not raised_by_user_code(error):
                    raise
                cause = f"{tuple_text(block, row)}: {type(error).__name__}: {error}"
                raise FunctionError(self._vertex, self.name, cause, trace_in_user_code(error)) from error
        return made, None


def _takes_w(function: StreamFunction) -> bool:
    return any(parameter.name == "w" for parameter in function.parameters)


def tuple_text(block: PhysicalWindow, row: int) -> str:
    """A tuple as errors name it: by number and content."""
    return f"tuple {block.ordinals[row]} {block[row]!r:.300}"
