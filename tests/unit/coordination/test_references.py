"""What a query's document names, by the places where it names it."""

import pytest

from gsdm_grid.spec.references import names

DOCUMENT = {
    "name": "antenna9",
    "inputs": [
        "antenna",
        {"source": "dish", "name": "other"},
        {"type": "Wave", "interface": "udp", "options": {"a": "x"}},
    ],
    "flow": {"template": "PCC", "args": [2, "lib.part", "lib.f", {"p": 1}, "OS-Join", {"combine": "lib.join"}]},
    "outputs": ["archive", {"name": "kept", "type": {"name": "Own", "under": "Base", "attributes": {}}}],
    "labels": {"note": "antenna8", "function": "lib.g"},
}


@pytest.mark.parametrize(
    ("kind", "expected"),
    [("source", {"antenna", "dish"}), ("sink", {"archive"}), ("type", {"Wave", "Base"}), ("interface", {"udp"})],
)
def test_streams_and_types_are_named_where_they_are_used(kind, expected):
    assert names(DOCUMENT, kind) == expected


def test_functions_are_named_in_the_flow_and_in_its_parameters_but_not_in_labels():
    found = names(DOCUMENT, "function")
    assert {"lib.part", "lib.f", "lib.join"} <= found
    assert not {"lib.g", "antenna8", "antenna"} & found


def test_a_document_that_is_not_valid_any_more_can_still_be_asked():
    assert names({"inputs": None, "flow": 3, "outputs": "archive"}, "sink") == set()
