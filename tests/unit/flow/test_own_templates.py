"""Templates that people define: they nest, are checked, and are found by name."""

import sys
from dataclasses import replace

import pytest

from gsdm_grid import PCC, DataFlow, central, parallel, partition, pipe, sqf, template
from gsdm_grid.errors import FlowError, QueryError, UnknownName
from gsdm_grid.flow import TEMPLATES, build
from gsdm_grid.functions import functions


@pytest.fixture(autouse=True)
def forgotten():
    """What a test registers is forgotten after it."""
    before = set(TEMPLATES)
    yield
    for name in set(TEMPLATES) - before:
        TEMPLATES.remove(name)


@pytest.fixture
def spread():
    """The tree of the thesis as a template."""

    @template
    def spread(n: int, fun, params=None, timeout: float = 0.1) -> DataFlow:
        """The same function on ``n`` branches."""
        return PCC(n, "RRpart", fun, params, "S-Merge", timeout)

    return spread


def names(flow):
    return [vertex.function_name for vertex in flow.vertices]


def test_an_own_template_is_called_like_its_function(spread):
    assert spread(3, "fft3", timeout=1) == PCC(3, "RRpart", "fft3", None, "S-Merge", 1)
    assert spread(3, "fft3").template == "spread"


@pytest.mark.parametrize("how", ["itself", "name", "flow"])
def test_an_own_template_nests_in_those_of_the_library_and_in_itself(spread, how):
    fun, params = {
        "itself": (spread, [2, "fft3"]),
        "name": ("spread", {"n": 2, "fun": "fft3"}),
        "flow": (spread(2, "fft3"), None),
    }[how]
    tree = PCC(2, "RRpart", "PCC", [2, "RRpart", "fft3", {}, "S-Merge", 0.1], "S-Merge", 0.1)
    assert spread(2, fun, params) == tree
    assert names(pipe(fun, params, "polarize")).count("fft3") == 2
    assert names(parallel(2, fun, params)).count("fft3") == 4


def test_an_own_template_may_be_a_partitioning_one():
    @template
    def every_other(n, i):
        return central("RRpart", [n, i])

    assert names(partition(3, every_other)) == names(partition(3, "every_other")) == ["RRpart"] * 3


def test_in_an_own_template_the_hash_sign_is_its_own_branch():
    @sqf(register=False)
    def branch(s, number):
        """A function that is told its branch."""

    @template
    def in_two(number):
        return PCC(2, "RRpart", branch, {"number": number}, "S-Merge")

    flow = parallel(3, in_two, ["#"])
    assert [v.params["number"] for v in flow.vertices if v.function_name == "branch"] == [0, 1] * 3


def test_an_own_template_is_named_in_json(spread):
    spec = {"template": "spread", "args": [2, {"template": "spread", "n": 2, "fun": "fft3"}]}
    assert build(spec) == spread(2, spread(2, "fft3"))


@pytest.mark.parametrize(
    ("spec", "message"),
    [
        (
            {"args": [2]},
            "needs a value for parameter 'fun'; its parameters: n, fun, params, timeout",
        ),
        (
            {"args": [2, "fft3", {}, 1, 5]},
            "takes at most 4 arguments (n, fun, params, timeout), got 5",
        ),
        ({"args": [2, "fft3"], "n": 3}, "template 'spread': parameter 'n' has two values"),
        ({"args": [2, "fft3"], "m": 3}, "template 'spread': has no parameter 'm'; its parameters: n, fun, params"),
        ({"args": ["2", "fft3"]}, "template 'spread': parameter 'n': expected int, got '2'"),
        ({"args": [True, "fft3"]}, "template 'spread': parameter 'n': expected int, got True"),
        ({"args": [2, "fft3", {}, "soon"]}, "template 'spread': parameter 'timeout': expected float, got 'soon'"),
        ({"args": [0, "fft3"]}, "template 'spread', PCC: the degree must be a whole number of at least 1, got 0"),
        ({"args": [2, "fft4"]}, "unknown function 'fft4'; did you mean 'fft3'"),
    ],
)
def test_arguments_are_checked_and_errors_name_the_template_and_the_argument(spread, spec, message):
    with pytest.raises(QueryError) as error:
        build({"template": "spread", **spec})
    assert message in str(error.value)
    assert "'fft4'" in message or str(error.value).startswith("template 'spread'")


def test_errors_in_a_nested_template_say_where_it_stands(spread):
    with pytest.raises(FlowError, match=r"^pipe, stage 1, template 'spread': needs a value for parameter 'fun'"):
        pipe("polarize", {}, spread, [2])


@pytest.mark.parametrize(
    ("code", "message"),
    [
        (lambda: "fft3", "must return a data flow, returned str"),
        (lambda: {}["n"], "KeyError: 'n'"),
        (lambda: sys.exit(1), "SystemExit: 1"),
        (lambda: central("no such function"), "unknown function 'no such function'"),
        (lambda: pipe("fft3"), "template 'faulty', pipe: needs at least two stages"),
    ],
)
def test_what_goes_wrong_in_an_own_template_names_it(code, message):
    template(name="faulty")(code)
    with pytest.raises(QueryError, match="template 'faulty'") as error:
        build({"template": "faulty"})
    assert message in str(error.value)


def test_names_of_the_library_are_taken():
    with pytest.raises(QueryError, match="'PCC' is part of the library"):
        template(name="PCC")(lambda: central("fft3"))
    with pytest.raises(QueryError, match="'fft3' has the name of a function"):
        template(name="fft3")(lambda: central("polarize"))
    with pytest.raises(QueryError, match="expected a function that returns a data flow"):
        template(central("fft3"))


def test_a_template_says_what_it_takes(spread):
    assert spread.describe() == {
        "name": "spread",
        "parameters": [
            {"name": "n", "required": True},
            {"name": "fun", "required": True},
            {"name": "params", "required": False, "default": "None"},
            {"name": "timeout", "required": False, "default": "0.1"},
        ],
        "doc": "The same function on ``n`` branches.",
    }
    assert [one["name"] for one in TEMPLATES["pipe"].describe()["parameters"]] == ["*stages"]
    assert all(TEMPLATES[name].describe()["doc"] for name in TEMPLATES)


def test_an_unregistered_template_is_known_only_to_who_has_it():
    @template(register=False)
    def private():
        return central("fft3")

    assert names(pipe(private, None, "polarize")) == ["fft3", "polarize"]
    with pytest.raises(UnknownName, match="unknown template 'private'"):
        build({"template": "private"})


def test_an_entry_point_of_a_package_is_found_and_listed(tmp_path, monkeypatch):
    metadata = tmp_path / "flows_of_the_lab-1.dist-info"
    metadata.mkdir()
    code = (
        "from gsdm_grid import central, template\n@template(register=False)\ndef one():\n    return central('fft3')\n"
    )
    (tmp_path / "flows_of_the_lab.py").write_text(code)
    (metadata / "METADATA").write_text("Metadata-Version: 2.1\nName: flows-of-the-lab\nVersion: 1\n")
    (metadata / "entry_points.txt").write_text("[gsdm.templates]\nlab_one = flows_of_the_lab:one\n")
    monkeypatch.syspath_prepend(str(tmp_path))
    assert "lab_one" in TEMPLATES.names()
    assert build({"template": "lab_one"}) == central("fft3")


def test_code_of_a_bundle_uses_its_own_functions_under_their_full_names():
    @sqf(register=False)
    def own(s):
        """A function of the bundle."""

    functions.add(replace(own, name="lib.own", metadata={"bundle": "lib", "pinned": "lib@1.own"}))
    one = template(name="lib.t", register=False)(lambda: pipe("own", own))
    try:
        flow = replace(one, functions={"own": "lib.own"})()
    finally:
        functions.remove("lib.own")
    assert names(flow) == ["lib.own", "lib.own"]
    assert [vertex.function["pinned"] for vertex in flow.vertices] == ["lib@1.own"] * 2
    with pytest.raises(UnknownName, match="'own'"):
        one()
