import itertools

import pytest

from gsdm_grid.reports.flow_picture import (
    NODE_HEIGHT,
    NODE_WIDTH,
    FlowLayout,
    FlowNode,
    draw_flow,
)


def parallel(ways):
    nodes = [
        FlowNode("source", "radio", 0, "router", "source"),
        FlowNode("split", "split", 1, "router", "split"),
        FlowNode("merge", "s_merge", 3, "merge", "merge"),
        FlowNode("sink", "result", 4, "merge", "sink"),
        FlowNode("log", "log", 4, None, "watch"),
    ]
    edges = [("source", "split"), ("merge", "sink"), ("source", "log")]
    for way in range(ways):
        nodes.append(FlowNode(way, "fft3", 2, f"compute {way}", "compute"))
        edges += [("split", way), (way, "merge")]
    return nodes, edges


def overlap(one, other):
    (_, x1, y1, w1, h1), (_, x2, y2, w2, h2) = one, other
    return x1 < x2 + w2 and x2 < x1 + w1 and y1 < y2 + h2 and y2 < y1 + h1


@pytest.mark.parametrize("ways", [1, 2, 6, 16])
def test_boxes_of_sites_never_overlap(ways):
    layout = FlowLayout(*parallel(ways))
    assert len(layout.boxes) == ways + 2
    assert not any(overlap(*pair) for pair in itertools.combinations(layout.boxes, 2))


@pytest.mark.parametrize("ways", [1, 6])
def test_every_node_lies_in_the_box_of_its_site_and_in_no_other(ways):
    nodes, edges = parallel(ways)
    layout = FlowLayout(nodes, edges)
    for node in nodes:
        x, y = layout.at[node.id]
        outline = ("", x - NODE_WIDTH / 2, y - NODE_HEIGHT / 2, NODE_WIDTH, NODE_HEIGHT)
        around = [box[0] for box in layout.boxes if overlap(box, outline)]
        assert around == ([] if node.site is None else [node.site])


def test_levels_go_from_left_to_right():
    layout = FlowLayout(*parallel(3))
    assert layout.at["source"][0] < layout.at["split"][0] < layout.at[0][0] < layout.at["merge"][0]
    assert layout.at[0][0] == layout.at[2][0]


def test_parallel_sites_stand_in_their_order_from_the_top():
    layout = FlowLayout(*parallel(6))
    heights = [layout.at[way][1] for way in range(6)]
    assert heights == sorted(heights, reverse=True)


def test_an_edge_that_skips_levels_leads_around_the_boxes_there():
    nodes, edges = parallel(5)
    layout = FlowLayout(nodes, edges)
    bends = layout.routes[edges.index(("source", "log"))][1:-1]
    assert len(bends) == 2  # at levels 2 and 3: level 1 is inside the source's own box
    for x, y in bends:
        assert not any(left < x < left + w and low < y < low + h for _, left, low, w, h in layout.boxes)


def test_an_edge_to_nowhere_is_refused_by_name():
    with pytest.raises(ValueError, match="'nobody'"):
        FlowLayout([FlowNode("a", "a", 0, None, "source")], [("a", "nobody")])


@pytest.mark.parametrize(("suffix", "start"), [("png", b"\x89PNG"), ("svg", b"<?xml")])
def test_a_flow_is_drawn_in_the_format_of_the_suffix(suffix, start, tmp_path):
    nodes, edges = parallel(6)
    path = draw_flow([tuple(node) for node in nodes], edges, tmp_path / f"flow.{suffix}", "Six ways")
    assert path.read_bytes().startswith(start)


def test_a_flow_of_nothing_can_be_drawn(tmp_path):
    assert draw_flow([], [], tmp_path / "flow.png").exists()
