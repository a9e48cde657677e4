"""Splitstream plans over plain HTTP: submitted as documents, checked, run, and told about."""

import pytest

from gsdm_grid.testing import eventually

RADIO = {"type": "Radio", "interface": "synthetic_radio", "options": {"window": 16, "limit": 600}}
HALF = "hash(ts) % w if hash(ts) % 10 > 0 else None"
TENTH = "hash(ts) % 20 == 0"


def document(name, first, **members):
    flow = {"template": "pipe", "args": [first, {"template": "mergestream", "w": 3}]}
    return {"name": name, "inputs": [RADIO], "flow": flow, **members}


@pytest.mark.parametrize(
    ("name", "split"),
    [
        ("by-rule", {"template": "splitstream", "w": 3, "rfn": HALF, "bfn": TENTH}),
        ("by-fsplit", {"template": "fsplit", "args": [3, HALF, TENTH]}),
        ("by-parasplit", {"template": "parasplit", "p": 2, "q": 3, "rfn": HALF, "bfn": TENTH, "fun": "fft3"}),
    ],
)
def test_a_split_is_submitted_run_and_told_about(name, split, rest, done):
    assert rest.post("/v1/queries", json=document(name, split)).status_code == 201
    done(rest, rest.post(f"/v1/queries/{name}/run"))
    told = eventually(
        lambda: rest.get(f"/v1/queries/{name}/statistics").json(),
        lambda sites: sum(one["tuples"] for one in _splitters(sites).values() if one["root"]) == 600,
    )
    splitters = _splitters(told).values()
    assert all(one["o"] + one["r"] + one["b"] == pytest.approx(1) for one in splitters if one["tuples"])
    assert {one["hot"] for one in splitters} == {None}
    assert "split" in rest.get(f"/v1/queries/{name}/graph", params={"format": "mermaid"}).text
    done(rest, rest.delete(f"/v1/queries/{name}"))


def _splitters(sites):
    """Splitters of all sites; ``root`` are those that nothing was split before."""
    found = {
        name: {**figures, "root": True}
        for site in sites.values()
        for name, figures in site.get("operators", {}).items()
        if name.startswith("split.")
    }
    if len(found) == 2 and any("route.0" in site.get("operators", {}) for site in sites.values()):
        return found
    return {name: {**figures, "root": name == "split.0"} for name, figures in found.items()}


@pytest.mark.parametrize(
    ("split", "told"),
    [
        ({"template": "fsplit", "w": 3, "rfn": "tx % w"}, "unknown attribute 'tx' of stream type 'Radio'"),
        ({"template": "fsplit", "w": 3, "rfn": "x"}, "only numbers, truth values, timestamps and text can be used"),
        ({"template": "fsplit", "w": 3, "rfn": "__import__('os').getpid()"}, "no known function"),
        ({"template": "fsplit", "w": 3, "rfn": "os:getpid"}, "os:getpid"),
        (
            {"template": "fsplit", "w": 3, "rfn": {"$function": {"name": "f", "code": "gASVAAAA"}}},
            "'$function' is only for plans",
        ),
        ({"template": "splitstream", "w": 3, "rfn": "ts % w", "plan": "bush"}, "unknown split plan 'bush'"),
    ],
)
def test_a_wrong_split_is_refused_with_the_place(split, told, rest):
    refused = rest.post("/v1/queries", json=document("refused", split))
    assert refused.status_code in (400, 403, 422), refused.text
    assert told in refused.json()["detail"]
