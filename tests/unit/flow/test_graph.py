"""The data flow graph: JSON, checks, drawings."""

import json

import pytest

from gsdm_grid import PCC, STREAM, DataFlow, central, current_window, lpipe, partition, pipe, sqf
from gsdm_grid.errors import FlowError
from gsdm_grid.flow import Site, Vertex, arcs

TREE = PCC(2, "RRpart", "PCC", [2, "fft3part", "fft3", {}, "OS-Join", {"fft3combine"}], "S-Merge", 0.1)
FLOWS = [central("fft3"), TREE, lpipe("fft3", "polarize"), partition(3, "hashpart", "ts"), central("S-Merge", None, 4)]


@pytest.mark.parametrize("flow", FLOWS, ids=str)
def test_a_flow_round_trips_through_json(flow):
    assert DataFlow.from_json(json.loads(json.dumps(flow.to_json()))) == flow


def test_a_function_that_is_not_installed_travels_as_code():
    @sqf(STREAM, register=False)
    def shifted(s, by):
        v = current_window(s)
        return v.replace(ts=v.ts + by)

    back = DataFlow.from_json(json.loads(json.dumps(central(shifted, [5]).to_json())))
    assert back.vertices[0].resolved.name == "shifted"
    assert back.vertices[0].params == {"by": 5}


def broken(change):
    data = json.loads(json.dumps(pipe("fft3", "polarize").to_json()))
    change(data)
    return data


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda d: d["vertices"][0].update(inputs=["polarize.0"]), "has a cycle: .*fft3.0"),
        (lambda d: d["vertices"][0].update(inputs=["fft3.0"]), "has a cycle"),
        (lambda d: d["vertices"][0].update(inputs=["ghost"]), "'fft3.0': reads 'ghost'"),
        (lambda d: d["vertices"][0].update(inputs=[1]), "'fft3.0': reads 1"),
        (lambda d: d["vertices"][0].update(site="nowhere"), "unknown site 'nowhere'"),
        (lambda d: d.update(outputs=["ghost"]), "unknown vertex 'ghost'"),
        (lambda d: d.update(outputs=[]), "no output"),
        (lambda d: d.pop("sites"), "sites"),
        (lambda d: d.update(arity="many"), "many"),
        (lambda d: d["vertices"].append(dict(d["vertices"][0])), "'fft3.0'.*twice"),
        (lambda d: d["sites"].append(dict(d["sites"][0])), "'compute.0'.*twice"),
    ],
)
def test_a_graph_that_does_not_fit_together_is_refused(change, message):
    with pytest.raises(FlowError, match=message):
        DataFlow.from_json(broken(change))


def test_levels_count_from_the_input_points():
    assert TREE.levels["RRpart.0"] == 0
    assert TREE.levels["fft3.3"] == 2
    assert TREE.levels["S-Merge.0"] == 4


def test_text_has_a_line_per_vertex_with_its_site_function_and_streams():
    text = str(PCC(2, "RRpart", "xmagn", {"threshold": 3}, "S-Merge"))
    head, *lines = text.splitlines()
    assert head == "data flow: 1 in, 1 out, 4 sites"
    assert len(lines) == 5
    assert "  compute.1    xmagn.1: xmagn(threshold=3) ← RRpart.1" in lines
    assert lines[-1].endswith("S-Merge.0: S-Merge() ← xmagn.0, xmagn.1 → out[0]")
    assert "run=" not in text


@pytest.mark.parametrize("flow", FLOWS, ids=str)
def test_dot_has_a_cluster_per_site_and_every_arc(flow):
    dot = flow.to_dot()
    assert dot.startswith("digraph")
    assert dot.count("{") == dot.count("}")
    assert dot.count("subgraph cluster_") == len(flow.sites)
    for a, b in arcs(flow):
        assert f'"{a}" -> "{b}";' in dot


@pytest.mark.parametrize("flow", FLOWS, ids=str)
def test_mermaid_has_a_subgraph_per_site_and_every_arc(flow):
    lines = flow.to_mermaid().splitlines()
    assert lines[0] == "flowchart LR"
    assert sum(line.strip().startswith("subgraph") for line in lines) == len(flow.sites)
    assert sum(line.strip() == "end" for line in lines) == len(flow.sites)
    assert sum("-->" in line for line in lines) == len(arcs(flow))


def test_names_with_quotes_do_not_break_the_drawings():
    flow = central("hashpart", {"n": 1, "i": 0, "key": 'a"b\\'})
    assert '\\"' in flow.to_dot()
    assert 'a"b' not in flow.to_mermaid()


def test_a_chain_of_thousands_of_vertices_has_its_levels_in_whatever_order_the_vertices_are_named():
    ids = [f"v{number}" for number in range(5_000)]
    pairs = zip(ids, [0, *ids], strict=False)
    chain = [Vertex(name, {"name": "identity"}, {}, (before,), "s") for name, before in pairs]
    flow = DataFlow(1, (ids[-1],), tuple(reversed(chain)), (Site("s", "compute"),))
    assert DataFlow.from_json(flow.to_json()).levels[ids[-1]] == 4_999


def test_a_cycle_is_refused_with_the_way_around():
    vertices = tuple(Vertex(a, {"name": "identity"}, {}, (b,), "s") for a, b in ("ab", "bc", "ca"))
    with pytest.raises(FlowError, match=r"the data flow has a cycle: (a → c → b → a|b → a → c → b|c → b → a → c)"):
        DataFlow(1, ("c",), vertices, (Site("s", "compute"),)).checked()
