"""Expressions over the attributes of a stream, as text: ``"xway if kind == 0 else None"``, ``"hash(vid) % w"``.

They are written in a small part of Python. The text is parsed, checked against the stream type, and evaluated over the
columns of whole physical windows; Python never executes it. What there is:

* attributes (numbers, truth values, timestamps, text), numbers, text, ``True``, ``False``, and names of constants;
* ``+ - * / // %``, comparisons (also chained, also ``in [1, 2]``), ``and or not``, ``a if condition else b``;
* ``abs(x)``, ``min(x, y, …)``, ``max(x, y, …)``, ``int(x)`` (towards zero) and ``hash(x)`` (whole, never negative, the
  same in every process);
* ``None`` as the result, or as a branch of the conditional that gives the result: nothing.

Whole numbers are computed in 64 bits. ``and``, ``or`` and conditionals guard: ``pos // seg if seg > 0 else None`` does
not divide where ``seg`` is zero. Text can be compared with constants, and hashed.
"""

from __future__ import annotations

import ast
import threading
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Literal, NoReturn

import numpy as np
from numpy.typing import NDArray

from gsdm_grid.errors import FlowError
from gsdm_grid.expressions.hashing import hash_values
from gsdm_grid.model import Column, PhysicalWindow, Ragged, StreamType, Text

ValueKind = Literal["whole number", "number", "truth value", "text", "nothing"]
LONGEST = 2000
_ARITHMETIC: Mapping[type[ast.operator], Callable[[Any, Any], Any]] = {
    ast.Add: np.add,
    ast.Sub: np.subtract,
    ast.Mult: np.multiply,
    ast.Div: np.true_divide,
    ast.FloorDiv: np.floor_divide,
    ast.Mod: np.mod,
}
_COMPARISONS: Mapping[type[ast.cmpop], Callable[[Any, Any], Any]] = {
    ast.Eq: np.equal,
    ast.NotEq: np.not_equal,
    ast.Lt: np.less,
    ast.LtE: np.less_equal,
    ast.Gt: np.greater,
    ast.GtE: np.greater_equal,
}
_FUNCTIONS = ("abs", "hash", "int", "max", "min")
_NUMBERS = ("whole number", "number", "truth value")


_parsing = threading.RLock()


def parsed(text: str) -> ast.expr:
    """The syntax tree of an expression.

    One thread at a time: Python counts the depth of such trees for all threads together, and raises SystemError
    if a second one comes in between.
    """
    with _parsing:
        return ast.parse(text.strip(), mode="eval").body


class TupleFault(Exception):
    """Evaluation failed at a row of the block."""

    def __init__(self, row: int, reason: str) -> None:
        super().__init__(row, reason)
        self.row, self.reason = row, reason


class Rows:
    """The rows of a block that a part of an expression is evaluated for: all, or those that a condition left."""

    def __init__(self, block: PhysicalWindow, chosen: NDArray[np.intp] | None = None) -> None:
        self._block, self._chosen = block, chosen

    def __len__(self) -> int:
        return len(self._block) if self._chosen is None else len(self._chosen)

    def column(self, name: str) -> Column:
        """An attribute of these rows."""
        column: Column = self._block.columns[name]
        return column if self._chosen is None else column.take(self._chosen)

    def where(self, mask: NDArray[np.bool_]) -> Rows:
        """Those of the rows for which it is true."""
        places = np.flatnonzero(mask)
        return Rows(self._block, places if self._chosen is None else self._chosen[places])

    def fault(self, row: int, reason: str) -> NoReturn:
        """Say that evaluation failed at one of these rows."""
        raise TupleFault(int(row if self._chosen is None else self._chosen[row]), reason)


Evaluate = Callable[[Rows], Any]


@dataclass(frozen=True)
class Part:
    """A checked part of an expression. ``guarded`` parts may fail, so they are evaluated only where they count.

    ``evaluate`` gives an array over the rows, or one value for all of them.
    """

    kind: ValueKind
    evaluate: Evaluate
    guarded: bool = False
    constant: Any = None


@dataclass(frozen=True)
class Checked:
    """An expression that fits a stream type: its value over the columns of a block, and where it has none."""

    kind: ValueKind
    evaluate: Callable[[PhysicalWindow], tuple[NDArray[Any], NDArray[np.bool_] | None]]


class Expression:
    """The text of an expression, parsed. Immutable; travels as its text."""

    def __init__(self, text: str, place: str = "expression") -> None:
        self.text, self._place = text, place
        if len(text) > LONGEST:
            raise FlowError(place, f"is {len(text)} characters long; at most {LONGEST} are allowed")
        try:
            self._tree = parsed(text)
        except SyntaxError as error:
            where = f"at character {error.offset}" if error.offset else "at its end"
            raise FlowError(f"{place} {text!r}", f"{error.msg} ({where})") from None
        except (ValueError, RecursionError, MemoryError) as error:
            raise FlowError(place, f"cannot be parsed: {error or type(error).__name__}") from None

    def checked(self, stream_type: StreamType, constants: Mapping[str, int] | None = None) -> Checked:
        """The expression over streams of a type, or an error that says what does not fit. Attributes hide constants."""
        try:
            made = _Checker(self, stream_type, constants or {}).result(self._tree)
        except RecursionError:
            raise FlowError(self._place, "is nested too deeply") from None

        def over(block: PhysicalWindow) -> tuple[NDArray[Any], NDArray[np.bool_] | None]:
            with np.errstate(all="ignore"):  # what NumPy would warn of is looked for where it matters
                values, present = made.evaluate(Rows(block))
            return _full(values, len(block)), present

        return Checked(made.kind, over)

    def fail(self, node: ast.AST, reason: str) -> NoReturn:
        """Refuse a part of the expression."""
        part = ast.get_source_segment(self.text.strip(), node) or self.text
        where = "" if part == self.text.strip() else f"{part!r}: "
        raise FlowError(f"{self._place} {self.text!r}", where + reason)


@dataclass(frozen=True)
class Branch:
    """A checked part that may be nothing: ``evaluate`` gives its values, and where it has one (None: everywhere)."""

    kind: ValueKind
    evaluate: Callable[[Rows], tuple[Any, NDArray[np.bool_] | None]]
    guarded: bool = False


class _Checker:
    """Turns a parsed expression into nested functions over columns, checking kinds on the way."""

    def __init__(self, expression: Expression, stream_type: StreamType, constants: Mapping[str, int]) -> None:
        self._fail = expression.fail
        self._type = stream_type
        self._constants = constants

    def result(self, node: ast.expr) -> Branch:
        """The whole expression, or a branch of the conditional that gives the result: it may be nothing."""
        if isinstance(node, ast.Constant) and node.value is None:
            return Branch("nothing", lambda rows: (0, np.zeros(len(rows), bool)))
        if not isinstance(node, ast.IfExp):
            part = self.part(node)
            return Branch(part.kind, lambda rows: (part.evaluate(rows), None), part.guarded)
        condition = self._truth(node.test)
        body, orelse = self.result(node.body), self.result(node.orelse)
        kind = self._common(node, body.kind, orelse.kind)
        guarded = body.guarded or orelse.guarded
        choose = _each_for_its_own if guarded else _both_for_all

        def evaluate(rows: Rows) -> tuple[Any, NDArray[np.bool_] | None]:
            return choose(rows, _full(condition.evaluate(rows), len(rows)), body, orelse)

        return Branch(kind, evaluate, condition.guarded or guarded)

    def part(self, node: ast.expr) -> Part:
        """A part that has a value everywhere."""
        match node:
            case ast.Constant():
                return self._constant(node)
            case ast.Name():
                return self._name(node)
            case ast.UnaryOp():
                return self._unary(node)
            case ast.BinOp():
                return self._binary(node)
            case ast.BoolOp():
                return self._logical(node)
            case ast.Compare():
                return self._comparison(node)
            case ast.Call():
                return self._call(node)
            case ast.IfExp():
                return self._conditional(node)
        return self._fail(
            node, "is not allowed; allowed: attributes, numbers, text, + - * / // %, comparisons, and, or, not, if else"
        )

    def _constant(self, node: ast.Constant) -> Part:
        value = node.value
        kinds: dict[type, ValueKind] = {bool: "truth value", int: "whole number", float: "number", str: "text"}
        if type(value) not in kinds:
            self._fail(node, "None is only allowed as the result, or as a branch of the conditional that gives it")
        if type(value) is int and not -(1 << 63) <= value < 1 << 63:
            self._fail(node, "is too large: whole numbers have 64 bits")
        return Part(kinds[type(value)], lambda _: value, constant=value)

    def _name(self, node: ast.Name) -> Part:
        name = node.id
        if name not in self._type.attributes and name in self._constants:
            value = self._constants[name]
            return Part("whole number", lambda _: value, constant=value)
        if name not in self._type.attributes:
            known = ", ".join([*self._type.attributes, *self._constants])
            self._fail(node, f"unknown attribute {name!r} of stream type {self._type.name!r}; known: {known}")
        attribute = self._type.attribute(name)
        if attribute.is_string:
            return Part("text", lambda rows: rows.column(name))
        kind = _kind_of(attribute.numpy) if attribute.is_scalar else None
        if kind is None:
            self._fail(node, f"is {attribute}: only numbers, truth values, timestamps and text can be used")
        return Part(kind, lambda rows: rows.column(name))

    def _unary(self, node: ast.UnaryOp) -> Part:
        if isinstance(node.op, ast.Not):
            operand = self._truth(node.operand)
            return Part("truth value", lambda rows: np.logical_not(operand.evaluate(rows)), operand.guarded)
        if not isinstance(node.op, ast.USub | ast.UAdd):
            self._fail(node, "this operator is not allowed")
        inner = self._number(node.operand)
        kind: ValueKind = "number" if inner.kind == "number" else "whole number"
        if isinstance(node.op, ast.UAdd):
            return Part(kind, lambda rows: _wide(inner.evaluate(rows)), inner.guarded)
        value = None if inner.constant is None else -inner.constant
        return Part(kind, lambda rows: np.negative(_wide(inner.evaluate(rows))), inner.guarded, value)

    def _binary(self, node: ast.BinOp) -> Part:
        if type(node.op) not in _ARITHMETIC:
            self._fail(node, f"this operator is not allowed; allowed: {'+ - * / // %'}")
        operator = _ARITHMETIC[type(node.op)]
        left, right = self._number(node.left), self._number(node.right)
        guarded = left.guarded or right.guarded
        if isinstance(node.op, ast.Div):
            return Part("number", lambda rows: operator(left.evaluate(rows), right.evaluate(rows)), guarded)
        kind: ValueKind = "number" if "number" in (left.kind, right.kind) else "whole number"
        if kind == "number" or not isinstance(node.op, ast.FloorDiv | ast.Mod):
            return Part(kind, lambda rows: operator(_wide(left.evaluate(rows)), _wide(right.evaluate(rows))), guarded)
        if right.constant is not None and right.constant == 0:
            self._fail(node, "divides by zero")

        def divided(rows: Rows) -> Any:
            divisor = _wide(right.evaluate(rows))
            if len(rows) and not np.all(divisor):
                rows.fault(int(np.flatnonzero(np.equal(divisor, 0))[0]), "division by zero")
            return operator(_wide(left.evaluate(rows)), divisor)

        return Part(kind, divided, guarded or right.constant is None)

    def _logical(self, node: ast.BoolOp) -> Part:
        parts = [self._truth(value) for value in node.values]
        every = isinstance(node.op, ast.And)

        def evaluate(rows: Rows) -> Any:
            made = parts[0].evaluate(rows)
            for part in parts[1:]:
                if not part.guarded:
                    made = (np.logical_and if every else np.logical_or)(made, part.evaluate(rows))
                    continue
                made = _full(made, len(rows)).copy()
                still = made if every else ~made
                if still.any():
                    made[still] = part.evaluate(rows.where(still))
            return made

        return Part("truth value", evaluate, any(part.guarded for part in parts))

    def _comparison(self, node: ast.Compare) -> Part:
        made = []
        for left, operator, right in zip([node.left, *node.comparators], node.ops, node.comparators, strict=False):
            made.append(self._compared(node, left, operator, right))

        def evaluate(rows: Rows) -> Any:
            result = made[0].evaluate(rows)
            for part in made[1:]:
                result = np.logical_and(result, part.evaluate(rows))
            return result

        return Part("truth value", evaluate, any(part.guarded for part in made))

    def _compared(self, node: ast.Compare, left: ast.expr, operator: ast.cmpop, right: ast.expr) -> Part:
        if isinstance(operator, ast.In | ast.NotIn):
            return self._member(left, right, isinstance(operator, ast.In))
        if type(operator) not in _COMPARISONS:
            self._fail(node, "this comparison is not allowed; allowed: == != < <= > >= in, not in")
        compare = _COMPARISONS[type(operator)]
        one, other = self.part(left), self.part(right)
        if "text" not in (one.kind, other.kind):
            return Part(
                "truth value",
                lambda rows: compare(one.evaluate(rows), other.evaluate(rows)),
                one.guarded or other.guarded,
            )
        if one.kind != other.kind or not isinstance(operator, ast.Eq | ast.NotEq):
            self._fail(node, f"compares a {one.kind} with a {other.kind}; text can be compared with text, by == and !=")
        if (one.constant is None) == (other.constant is None):
            self._fail(node, "text can be compared with a constant only")
        column, constant = (one, other.constant) if one.constant is None else (other, one.constant)
        equal = isinstance(operator, ast.Eq)
        return Part("truth value", lambda rows: _text_equals(column.evaluate(rows), [constant]) == equal)

    def _member(self, left: ast.expr, right: ast.expr, inside: bool) -> Part:
        if not isinstance(right, ast.List | ast.Tuple | ast.Set) or not right.elts:
            self._fail(right, "'in' needs a list of constants, such as [0, 2]")
        one = self.part(left)
        items = [self.part(item) for item in right.elts]
        for item, given in zip(items, right.elts, strict=True):
            if item.constant is None or (item.kind == "text") != (one.kind == "text"):
                self._fail(given, f"'in' needs a list of constants that can be compared with a {one.kind}")
        values = [item.constant for item in items]
        if one.kind == "text":
            return Part("truth value", lambda rows: _text_equals(one.evaluate(rows), values) == inside)
        return Part("truth value", lambda rows: np.isin(one.evaluate(rows), values) == inside, one.guarded)

    def _call(self, node: ast.Call) -> Part:
        name = node.func.id if isinstance(node.func, ast.Name) else ""
        if name not in _FUNCTIONS or node.keywords:
            self._fail(node, f"is no known function; known: {', '.join(_FUNCTIONS)}")
        least, most = (2, 100) if name in ("min", "max") else (1, 1)
        if not least <= len(node.args) <= most:
            self._fail(node, f"{name} takes {'one value' if most == 1 else 'two values or more'}, got {len(node.args)}")
        if name == "hash":
            hashed = self.part(node.args[0])
            return Part("whole number", lambda rows: _hash(hashed.evaluate(rows)), hashed.guarded)
        parts = [self._number(given) for given in node.args]
        guarded = any(part.guarded for part in parts)
        first = parts[0]
        kind: ValueKind = "number" if any(part.kind == "number" for part in parts) else "whole number"
        if name == "int":
            return Part("whole number", lambda rows: _whole(rows, first.evaluate(rows)), guarded or kind == "number")
        if name == "abs":
            return Part(kind, lambda rows: np.abs(_wide(first.evaluate(rows))), guarded)
        choose = np.minimum if name == "min" else np.maximum

        def chosen(rows: Rows) -> Any:
            made = _wide(first.evaluate(rows))
            for part in parts[1:]:
                made = choose(made, _wide(part.evaluate(rows)))
            return made

        return Part(kind, chosen, guarded)

    def _conditional(self, node: ast.IfExp) -> Part:
        made = self.result(node)
        if made.kind not in _NUMBERS or _has_nothing(node):
            self._fail(node, "None and text are only allowed in the conditional that gives the result")
        return Part(made.kind, lambda rows: made.evaluate(rows)[0], made.guarded)

    def _truth(self, node: ast.expr) -> Part:
        part = self.part(node)
        if part.kind != "truth value":
            self._fail(node, f"is a {part.kind}; a condition must be a truth value, such as a comparison")
        return part

    def _number(self, node: ast.expr) -> Part:
        part = self.part(node)
        if part.kind not in _NUMBERS:
            self._fail(node, f"is a {part.kind}, where a number is needed")
        return part

    def _common(self, node: ast.expr, one: ValueKind, other: ValueKind) -> ValueKind:
        """Kind of a conditional with branches of these kinds."""
        if "nothing" in (one, other):
            return other if one == "nothing" else one
        if one != other and ("text" in (one, other)):
            self._fail(node, f"gives a {one} or a {other}: both must be of one kind")
        if one == other:
            return one
        return "number" if "number" in (one, other) else "whole number"


def _both_for_all(
    rows: Rows, chosen: NDArray[np.bool_], body: Branch, orelse: Branch
) -> tuple[Any, NDArray[np.bool_] | None]:
    """Both branches evaluated for all rows, which is quicker than to pick rows out."""
    if orelse.kind == "nothing":
        values, there = body.evaluate(rows)
        return values, chosen if there is None else chosen & there
    if body.kind == "nothing":
        return _both_for_all(rows, ~chosen, orelse, body)
    (one, one_there), (other, other_there) = body.evaluate(rows), orelse.evaluate(rows)
    present = None
    if one_there is not None or other_there is not None:
        present = np.where(
            chosen, True if one_there is None else one_there, True if other_there is None else other_there
        )
    return np.where(chosen, np.asarray(one), np.asarray(other)), present


def _each_for_its_own(
    rows: Rows, chosen: NDArray[np.bool_], body: Branch, orelse: Branch
) -> tuple[Any, NDArray[np.bool_] | None]:
    """Each branch evaluated for the rows that take it: the condition guards what cannot be computed elsewhere."""
    if chosen.all():
        return body.evaluate(rows)
    if not chosen.any():
        return orelse.evaluate(rows)
    present = np.ones(len(rows), bool)
    parts = []
    for mask, branch in ((chosen, body), (~chosen, orelse)):
        inner = rows.where(mask)
        made, there = branch.evaluate(inner)
        parts.append((mask, _full(made, len(inner))))
        if there is not None:
            present[mask] = there
    values = np.zeros(len(rows), np.result_type(*(made for _, made in parts)))
    for mask, made in parts:
        values[mask] = made
    return values, present


def _has_nothing(node: ast.expr) -> bool:
    return any(isinstance(inner, ast.Constant) and inner.value is None for inner in ast.walk(node))


def _kind_of(dtype: np.dtype[Any]) -> ValueKind | None:
    kinds: dict[str, ValueKind] = {"b": "truth value", "i": "whole number", "u": "whole number", "f": "number"}
    return kinds.get(dtype.kind)


def _wide(value: Any) -> Any:
    """Whole numbers in 64 bits, so that sums and products do not overflow early."""
    if isinstance(value, bool):
        return int(value)
    if isinstance(value, np.ndarray | np.generic) and value.dtype.kind in "biu" and value.dtype != np.int64:
        return value.astype(np.int64)
    return value


def _whole(rows: Rows, value: Any) -> Any:
    if np.asarray(value).dtype.kind != "f":
        return _wide(value)
    floats = _full(value, len(rows))
    wrong = ~(np.abs(floats) < 2.0**63)
    if wrong.any():
        row = int(np.flatnonzero(wrong)[0])
        rows.fault(row, f"int({floats[row]}) is no whole number of 64 bits")
    return np.trunc(floats).astype(np.int64)


def _hash(value: Any) -> Any:
    column = value if isinstance(value, Ragged | np.ndarray) else np.array([value])
    hashed = (hash_values(column) >> np.uint64(1)).astype(np.int64)
    return hashed if isinstance(value, Ragged | np.ndarray) else hashed[0]


def _text_equals(column: Text, constants: list[str]) -> NDArray[np.bool_]:
    """Which strings are one of the constants: by length, then by bytes."""
    lengths = np.diff(column.offsets)
    found = np.zeros(len(column), bool)
    for constant in constants:
        wanted = np.frombuffer(constant.encode("utf-8", "surrogatepass"), np.uint8)
        rows = np.flatnonzero(lengths == len(wanted))
        places = column.offsets[rows][:, None] + np.arange(len(wanted))
        found[rows] |= (column.values[places] == wanted).all(axis=1)
    return found


def _full(value: Any, count: int) -> NDArray[Any]:
    """One value per row."""
    array = np.asarray(value)
    return array if array.ndim else np.full(count, array)
