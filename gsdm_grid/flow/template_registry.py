"""Templates by name, and what happens when one is called; `@template` makes one of a function.

A template is a function that returns a data flow. Those of the library are in `templates` and `splitting`; people
register their own by `@template`, as entry points ``gsdm.templates`` of a package, or in an uploaded bundle. A template
runs where the flow is built, never on a worker: only the functions that it names travel.
"""

from __future__ import annotations

import inspect
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, field, replace
from functools import cached_property, lru_cache
from importlib import metadata
from typing import Any, overload

from gsdm_grid.errors import FlowError, GsdmError, QueryError, UnknownName
from gsdm_grid.flow.graph import DataFlow, renamed
from gsdm_grid.functions import Collector, Parameter, functions, raised_by_user_code

ENTRY_POINTS = "gsdm.templates"
_CHECKED: dict[str, type] = {kind.__name__: kind for kind in (bool, int, float, str, list, dict)}
"""Annotations that are checked: plain classes. Others describe more than a call can know."""
_POSITIONAL = (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD)
_NAMED = (inspect.Parameter.POSITIONAL_OR_KEYWORD, inspect.Parameter.KEYWORD_ONLY)


@dataclass(frozen=True, eq=False)
class Template:
    """A constructor of data flows. Immutable; called like the function that it was made of.

    ``functions`` are full names by those that its code uses, if it came in a bundle; ``metadata`` says which.
    """

    name: str
    code: Callable[..., DataFlow]
    is_builtin: bool = False
    functions: Mapping[str, str] = field(default_factory=dict)
    metadata: Mapping[str, Any] = field(default_factory=dict)

    def __call__(self, *args: Any, **named: Any) -> DataFlow:
        """The data flow; a `FlowError` names the template and what is wrong with its arguments."""
        return self.build(args, named)

    def build(self, args: Sequence[Any], named: Mapping[str, Any], place: str = "") -> DataFlow:
        """The data flow; ``place`` is where the template stands."""
        where = f"{place}, template {self.name!r}" if place else f"template {self.name!r}"
        self._check(args, named, where)
        try:
            if self.is_builtin:
                return self.code(*args, **named)
            with functions.inside(self.functions) if self.functions else nullcontext():
                return self._own(self.code(*args, **named), where)
        except GsdmError as error:
            raise (error if self.is_builtin else self._placed(error, where)) from None
        except BaseException as error:
            if not raised_by_user_code(error):
                raise
            raise FlowError(where, _cause(error)) from error

    @cached_property
    def signature(self) -> inspect.Signature:
        """What it takes."""
        return inspect.signature(self.code)

    def describe(self) -> dict[str, Any]:
        """Name, parameters and description as plain JSON, for listings."""
        parameters = [
            Parameter(_shown(one), () if one.kind not in (*_POSITIONAL, *_NAMED) else one.default)
            for one in self.signature.parameters.values()
        ]
        return {
            "name": self.name,
            "parameters": [parameter.describe() for parameter in parameters],
            "doc": inspect.cleandoc(self.code.__doc__ or ""),
        }

    def _placed(self, error: GsdmError, where: str) -> GsdmError:
        """An error in a person's template, with the template's name; one that calls itself is named once."""
        if not isinstance(error, UnknownName | FlowError):
            return error
        inner = error.place if isinstance(error, UnknownName) else error.args[0]
        if f"template {self.name!r}" in inner:
            return error
        outer = f"{where}, {inner}" if inner else where
        return error.at(outer) if isinstance(error, UnknownName) else FlowError(outer, error.args[1])

    def _own(self, flow: Any, where: str) -> DataFlow:
        """What a person's template returned, checked and named after it."""
        if not isinstance(flow, DataFlow):
            raise FlowError(where, f"must return a data flow, returned {type(flow).__name__}")
        return renamed(replace(flow, template=self.name))

    def _check(self, args: Sequence[Any], named: Mapping[str, Any], where: str) -> None:
        parameters = self.signature.parameters
        kinds = [one.kind for one in parameters.values()]
        listed = ", ".join(map(_shown, parameters.values())) or "none"
        positional = [name for name, one in parameters.items() if one.kind in _POSITIONAL]
        by_name = [name for name, one in parameters.items() if one.kind in _NAMED]
        if len(args) > len(positional) and inspect.Parameter.VAR_POSITIONAL not in kinds:
            raise FlowError(where, f"takes at most {len(positional)} arguments ({listed}), got {len(args)}")
        if inspect.Parameter.VAR_KEYWORD not in kinds:
            for name in named:
                if name not in by_name:
                    raise FlowError(where, f"has no parameter {name!r}; its parameters: {listed}")
        values = {**dict(zip(positional, args, strict=False)), **named}
        if twice := next((name for name in positional[: len(args)] if name in named), None):
            raise FlowError(where, f"parameter {twice!r} has two values")
        for name in dict.fromkeys((*positional, *by_name)):
            if name not in values and parameters[name].default is inspect.Parameter.empty:
                raise FlowError(where, f"needs a value for parameter {name!r}; its parameters: {listed}")
            if name in values and not _fits(values[name], parameters[name]):
                expected = getattr(parameters[name].annotation, "__name__", parameters[name].annotation)
                raise FlowError(where, f"parameter {name!r}: expected {expected}, got {values[name]!r:.80}")


class TemplateRegistry(Mapping[str, Template]):
    """Templates by name. One per process. Entry points of installed packages are found, but not listed by iteration."""

    def __init__(self) -> None:
        self._templates: dict[str, Template] = {}
        self._collector: Collector[Template] = Collector("templates")

    def add(self, one: Template) -> Template:
        """Register under its own name; those of the library are taken. The same name again replaces it."""
        if self._collector.take(one, getattr(one.code, "__module__", None) or ""):
            return one
        known = self._templates.get(one.name)
        if known is not None and known.is_builtin:
            raise QueryError(f"template {one.name!r} is part of the library: rename yours")
        if functions.has(one.name):
            raise QueryError(f"template {one.name!r} has the name of a function: rename it")
        self._templates[one.name] = one
        return one

    def add_builtin(self, *constructors: Callable[..., DataFlow]) -> None:
        """Register constructors of the library, under their own names."""
        for code in constructors:
            self._templates[code.__name__] = Template(code.__name__, code, is_builtin=True)

    def remove(self, name: str) -> None:
        """Forget a name, if it is known."""
        self._templates.pop(name, None)

    def collecting(self, package: str) -> AbstractContextManager[list[Template]]:
        """While it lasts, templates that this thread defines in modules of a package are collected, not registered."""
        return self._collector.collecting(package)

    def find(self, one: Any) -> Template | None:
        """The template of a name, or the template itself; None if it is neither."""
        if isinstance(one, Template):
            registered = self._templates.get(functions.full_name(one.name))
            return registered if registered is not None and registered.code is one.code else one
        if not isinstance(one, str):
            return None
        name = functions.full_name(one)
        pinned = self._templates.get(functions.pinned_name(name))
        if pinned is not None and pinned.name != name:  # its functions too are then those of that version
            bundle = name.partition(".")[0]
            return replace(pinned, name=name, functions={own: f"{bundle}.{own}" for own in pinned.functions})
        if name in self._templates:
            return self._templates[name]
        entry = _entry_points(tuple(sys.path)).get(name)
        return None if entry is None else self.add(replace(_loaded(entry), name=name))

    def pins(self, names: Mapping[str, str]) -> dict[str, str]:
        """Pinned names of functions (see `FunctionRegistry.pinned`), and of templates of the same bundles' versions."""
        versions = {full.partition(".")[0] for full in names.values()}
        templates = {
            f"{one.metadata['bundle']}.{name.partition('.')[2]}": name
            for name, one in self._templates.items()
            if name.partition(".")[0] in versions
        }
        return {**templates, **names}

    def names(self) -> list[str]:
        """All names that are found, sorted; those of the library first."""
        own = {name for name, one in self._templates.items() if not one.is_builtin}
        listed = [name for name, one in self._templates.items() if one.is_builtin]
        return [*listed, *sorted(own | set(_entry_points(tuple(sys.path))))]

    def __getitem__(self, name: str) -> Template:
        template = self.find(name)
        if template is None:
            raise UnknownName("template", name, self.names())
        return template

    def __contains__(self, name: object) -> bool:
        return self.find(name) is not None

    def __iter__(self) -> Iterator[str]:
        return iter(self._templates)

    def __len__(self) -> int:
        return len(self._templates)


TEMPLATES = TemplateRegistry()


@overload
def template(code: Callable[..., DataFlow]) -> Template: ...


@overload
def template(*, name: str | None = None, register: bool = True) -> Callable[[Callable[..., DataFlow]], Template]: ...


def template(
    code: Callable[..., DataFlow] | None = None, *, name: str | None = None, register: bool = True
) -> Template | Callable[[Callable[..., DataFlow]], Template]:
    """Make a template of a function that returns a data flow, and register it under its name.

    It is called like the function, nests in other templates by itself or by name, and can be named in JSON. Arguments
    are checked by the signature; annotations that are plain classes (``int``, ``str``, …) are checked too.

    >>> from gsdm_grid import PCC, pipe, template
    >>> @template
    ... def spectra(n: int, then="polarize"):
    ...     "The FFT in parallel, and what follows."
    ...     return pipe(PCC(n, "RRpart", "fft3", {}, "S-Merge"), then)
    >>> [vertex.function_name for vertex in spectra(2).vertices].count("fft3")
    2
    """

    def decorate(code: Callable[..., DataFlow]) -> Template:
        if not callable(code) or isinstance(code, DataFlow):
            raise QueryError(f"@template: expected a function that returns a data flow, got {code!r:.80}")
        one = Template(name or code.__name__, code)
        return TEMPLATES.add(one) if register else one

    return decorate if code is None else decorate(code)


@lru_cache(maxsize=4)
def _entry_points(path: tuple[str, ...]) -> dict[str, metadata.EntryPoint]:  # noqa: ARG001
    """Entry points for templates of what is installed on this path: looking for them takes milliseconds."""
    return {entry.name: entry for entry in metadata.entry_points(group=ENTRY_POINTS)}


def _loaded(entry: metadata.EntryPoint) -> Template:
    try:
        loaded = entry.load()
    except (Exception, SystemExit) as error:  # importing runs the author's code, which may raise anything
        raise QueryError(f"template {entry.name!r} cannot be loaded from {entry.value!r}: {error}") from error
    if not isinstance(loaded, Template):
        raise QueryError(f"{entry.value!r} is a {type(loaded).__name__}, not a @template")
    return loaded


def _shown(parameter: inspect.Parameter) -> str:
    return str(parameter.replace(annotation=inspect.Parameter.empty, default=inspect.Parameter.empty))


def _fits(value: Any, parameter: inspect.Parameter) -> bool:
    annotation = parameter.annotation
    expected = _CHECKED.get(annotation if isinstance(annotation, str) else getattr(annotation, "__name__", ""))
    if expected is None or (value is None and parameter.default is None):
        return True
    if expected in (int, float) and isinstance(value, bool):
        return False
    return isinstance(value, int | float) if expected is float else isinstance(value, expected)


def _cause(error: BaseException) -> str:
    text = str(error).replace("()", "")
    return text if isinstance(error, TypeError) else f"{type(error).__name__}: {text}"
