"""Stream query functions: `@sqf`, the registry, window functions and the built-in library.

What a function is and says about itself is here. How functions are connected is in `gsdm_grid.flow`, and how
they are executed in `gsdm_grid.engine`.
"""

from gsdm_grid.functions.collecting import Collector, is_inside
from gsdm_grid.functions.lengths import (
    Lengths,
    added_lengths,
    check_divides,
    degree_of,
    equal_parts,
    fixed_lengths,
    same_lengths,
)
from gsdm_grid.functions.packages import PackageSet, PackageSets, digest_of, pack, packages, unpack
from gsdm_grid.functions.registry import (
    FUNCTION,
    FunctionRegistry,
    function_reference,
    function_value,
    functions,
    is_library,
    reference,
    resolve,
)
from gsdm_grid.functions.route_functions import Route, per_tuple, route_value
from gsdm_grid.functions.routing import OMIT, Decision, Routing, routing
from gsdm_grid.functions.sqf import FunctionKind, Parameter, Params, StreamFunction, same_type, sqf
from gsdm_grid.functions.strategies import (
    WINDOW_DISTRIBUTE,
    WINDOW_SPLIT,
    Strategy,
    undeclared,
    window_distribute,
    window_split,
)
from gsdm_grid.functions.traits import Traits
from gsdm_grid.functions.user_code import raised_by_user_code, trace_in_user_code
from gsdm_grid.functions.windows import NeedMore, StreamView, current_window, first_within, sliding_window, time_window

__all__ = [
    "FUNCTION",
    "OMIT",
    "WINDOW_DISTRIBUTE",
    "WINDOW_SPLIT",
    "Collector",
    "Decision",
    "FunctionKind",
    "FunctionRegistry",
    "Lengths",
    "NeedMore",
    "PackageSet",
    "PackageSets",
    "Parameter",
    "Params",
    "Route",
    "Routing",
    "Strategy",
    "StreamFunction",
    "StreamView",
    "Traits",
    "added_lengths",
    "check_divides",
    "current_window",
    "degree_of",
    "digest_of",
    "equal_parts",
    "first_within",
    "fixed_lengths",
    "function_reference",
    "function_value",
    "functions",
    "is_inside",
    "is_library",
    "pack",
    "packages",
    "per_tuple",
    "raised_by_user_code",
    "reference",
    "resolve",
    "route_value",
    "routing",
    "same_lengths",
    "same_type",
    "sliding_window",
    "sqf",
    "time_window",
    "trace_in_user_code",
    "undeclared",
    "unpack",
    "window_distribute",
    "window_split",
]
