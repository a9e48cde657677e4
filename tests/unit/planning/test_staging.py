from dataclasses import replace

import pytest

from gsdm_grid import PCC, Radio, pipe, sqf
from gsdm_grid.compiler import compile_flow, packages_of, pinned_names
from gsdm_grid.errors import FlowError, UnknownName
from gsdm_grid.flow import build
from gsdm_grid.functions import PackageSet, functions, packages
from gsdm_grid.plan import (
    GRID,
    RAY,
    SPARK,
    THREADS,
    Plan,
    StreamSpec,
)

INPUT = StreamSpec("in", "synthetic_radio", Radio, {"window": 64})
OUTPUT = StreamSpec("out", "recorder", options={"path": "x.npz"})


@pytest.fixture
def bundled(tmp_path):
    """Make functions that need a version of a package, as a bundle would."""
    made = []

    def make(version, kind="transforming"):
        digest = f"digest-{version}"
        about = tmp_path / digest / f"numerals-{version}.dist-info"
        about.mkdir(parents=True, exist_ok=True)
        (about / "METADATA").write_text(f"Metadata-Version: 2.1\nName: numerals\nVersion: {version}\n")
        packages.add(PackageSet(digest, tmp_path / digest))
        made.append(digest)

        def code(s):
            return s

        function = sqf(Radio, name="b.level", kind=kind, register=False)(code)
        return replace(function, metadata={"packages": digest, "pinned": f"b@{version}.level"})

    yield make
    for digest in made:
        packages.remove(digest)


def compiled(flow, policy):
    return compile_flow("q", flow, [INPUT], [OUTPUT], policy)


@pytest.mark.parametrize("policy", [GRID, RAY, SPARK])
def test_sites_name_the_packages_of_their_functions(bundled, policy):
    plan = compiled(PCC(2, "RRpart", bundled("1.0"), {}, "S-Merge"), policy)
    assert {site.role: packages_of(site) for site in plan.sites if site.operators}["compute"] == ("digest-1.0",)
    assert {packages_of(site) for site in plan.sites if site.role != "compute"} == {()}


def test_functions_with_packages_are_refused_on_threads(bundled):
    with pytest.raises(FlowError, match=r"packages of their own \(numerals 1\.0\), which threads .* 'ray' or 'spark'"):
        compiled(PCC(2, "RRpart", bundled("1.0"), {}, "S-Merge"), THREADS)


def test_two_versions_are_refused_where_they_would_share_a_process(bundled):
    flow = pipe(bundled("1.0"), {}, bundled("2.0"), {})
    reason = r"the query's Spark tasks would need numerals 1\.0 and numerals 2\.0 in one process"
    with pytest.raises(FlowError, match=reason):
        compiled(flow, SPARK)
    plan = compiled(flow, RAY)
    assert {packages_of(site) for site in plan.sites} >= {("digest-1.0",), ("digest-2.0",)}


def test_a_plan_tells_which_versions_it_was_compiled_with(bundled):
    plan = compiled(PCC(2, "RRpart", bundled("1.0"), {}, "S-Merge"), GRID)
    assert pinned_names(plan) == {"b.level": "b@1.0.level"}
    assert pinned_names(Plan.from_json(plan.to_json())) == pinned_names(plan)


def test_functions_among_parameters_count_too(bundled):
    combine = bundled("1.0", kind="combine")
    plan = compiled(PCC(2, "fft3part", "fft3", {}, "OS-Join", {"combine": combine}), GRID)
    assert [packages_of(site) for site in plan.sites if site.role == "combine"] == [("digest-1.0",)]
    assert pinned_names(plan) == {"b.level": "b@1.0.level"}


@pytest.fixture
def registered(bundled):
    """A combine function of a bundle, known by its name."""
    functions.add(bundled("1.0", kind="combine"))
    yield "b.level"
    functions.remove("b.level")


@pytest.mark.parametrize("name", ["combine", "partial"])
def test_a_function_that_a_parameter_names_is_staged_too(registered, name):
    params = {"combine": "fft3combine"} | {name: registered}
    plan = compiled(PCC(2, "fft3part", "fft3", {}, "OS-Join", params), GRID)
    assert [packages_of(site) for site in plan.sites if site.role == "combine"] == [("digest-1.0",)]
    assert pinned_names(plan) == {"b.level": "b@1.0.level"}


def test_functions_that_a_graph_in_a_document_names_are_staged_too(registered):
    document = PCC(2, "fft3part", "fft3", {}, "OS-Join", {"fft3combine"}).to_json()
    document["vertices"][-1]["params"]["combine"] = registered
    plan = compiled(build(document), GRID)
    assert [packages_of(site) for site in plan.sites if site.role == "combine"] == [("digest-1.0",)]


def test_a_parameter_that_names_no_function_is_refused_before_it_runs():
    with pytest.raises(UnknownName, match=r"parameter 'combine': unknown function 'fft3combin'; did you mean 'fft3c"):
        PCC(2, "fft3part", "fft3", {}, "OS-Join", {"combine": "fft3combin"})
    with pytest.raises(FlowError, match="parameter 'combine': expected a function or its name, got 3"):
        PCC(2, "fft3part", "fft3", {}, "OS-Join", {"combine": 3})
