"""Functions that travel to another process."""

import functools
import importlib
import json
import subprocess
import sys
import textwrap

import cloudpickle
import pytest

from gsdm_grid.functions import StreamFunction, functions, reference, resolve, sqf


@pytest.fixture
def module(tmp_path, monkeypatch):
    """Import a module with the given source, from a folder that other processes do not know."""
    loaded = []

    def load(name, source):
        (tmp_path / f"{name}.py").write_text(textwrap.dedent(source))
        monkeypatch.syspath_prepend(str(tmp_path))
        importlib.invalidate_caches()
        loaded.append(name)
        return importlib.import_module(name)

    yield load
    for name in loaded:
        sys.modules.pop(name, None)


def in_another_process(given, expression):
    """Value of an expression about ``f``, the resolved reference, in a fresh interpreter."""
    program = f"""
import json, sys
from gsdm_grid.functions import resolve
f = resolve(json.loads(sys.argv[1]))
print(json.dumps({expression}))
"""
    done = subprocess.run(
        [sys.executable, "-c", program, json.dumps(given)],
        capture_output=True,
        text=True,
        check=False,
        cwd="/",
    )
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


def test_names_of_the_library_are_taken_before_anybody_used_it():
    program = """
from gsdm_grid.functions import sqf
try:
    sqf(name="fft3")(lambda s: s)
except Exception as error:
    print(type(error).__name__)
"""
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "QueryError"


def test_library_function_is_referred_to_by_name():
    for name in ("fft3", "S-Merge", "polarcombine"):
        given = reference(functions.get(name))
        assert given == {"name": name}
        assert resolve(given) is functions.get(name)
    assert in_another_process({"name": "fft3"}, "[f.name, f.whole]") == ["fft3", True]


def test_code_of_a_module_that_another_process_cannot_import_travels_with_the_function(module):
    loaded = module(
        "gsdm_test_private",
        """
        import math
        from gsdm_grid.functions import sqf
        from gsdm_grid.model import TypeRegistry, create_stream_type

        Depth = create_stream_type("Depth", {"metres": "float64"}, registry=TypeRegistry())
        FACTOR = 3

        def helper(value):
            return math.floor(value * FACTOR)

        @sqf(Depth, returns=Depth, register=False)
        def deepen(s, by=2):
            return helper(s) + by
        """,
    )
    given = reference(loaded.deepen)
    assert set(given) == {"name", "code"}
    assert in_another_process(given, "[f(1.5), f(1.5, by=0), f.name, f.input.name, f.bind(None)]") == [
        *(6, 4, "deepen", "Depth", {"by": 2})
    ]
    assert "gsdm_test_private" not in cloudpickle.list_registry_pickle_by_value()


def test_functions_made_inside_functions_travel_with_what_they_close_over():
    def factory(amount):
        return sqf(name="closed", register=False)(lambda s: s + amount)

    given = reference(factory(5))
    assert resolve(given)(1) == 6
    assert in_another_process(given, "f(1)") == 6


def test_other_callables_than_functions_can_travel():
    class Adder:
        def __call__(self, s, amount=2):
            return s + amount

    given = reference(sqf(name="adder", register=False)(Adder()))
    assert in_another_process(given, "f(1)") == 3
    partial = functools.partial(divmod, 7)
    assert reference(StreamFunction("partial", "transforming", partial)).keys() == {"name", "code"}
