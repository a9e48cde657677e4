"""A picture of a data flow: nodes from left to right in levels, the sites they run on as boxes behind them.

It knows nothing of flows, plans and hosts: whoever has one describes it as nodes and edges. The layout moves
whole sites, so that boxes never overlap, and leads edges that skip a level between the boxes in their way.
"""

from __future__ import annotations

import itertools
from collections import defaultdict
from collections.abc import Hashable, Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

NODE_WIDTH, NODE_HEIGHT = 1.9, 0.56
LEVEL_STEP, ROW_STEP = 2.9, 0.74
SITE_MARGIN, SITE_GAP, SITE_HEAD = 0.18, 0.18, 0.24
SWEEPS = 200

ROLE_COLORS = {
    "source": "#2f7ed8",
    "route": "#6a6fc9",
    "split": "#8e6bbf",
    "compute": "#e4752b",
    "merge": "#3a9d5d",
    "join": "#2a8a86",
    "sink": "#5b6673",
}
_OTHER_COLORS = ("#b8588b", "#0f8f9c", "#a07a2c", "#c0392b")
_LINE = "#8a94a3"
_SITE_FILL, _SITE_EDGE, _SITE_TEXT = "#f1f4f9", "#c3ccd9", "#5d6878"


class FlowNode(NamedTuple):
    """One vertex. ``level`` counts from the left; ``site`` may be None: then there is no box behind it."""

    id: Hashable
    label: str
    level: int
    site: str | None
    role: str


Point = tuple[float, float]


@dataclass
class _Unit:
    """What the layout moves as one: the nodes of a site, or the bend of an edge that passes a level."""

    rows: dict[int, list[Hashable]] = field(default_factory=lambda: defaultdict(list))
    site: str | None = None
    is_bend: bool = False
    y: float = 0.0

    @property
    def height(self) -> float:
        if self.is_bend:
            return 0.1
        content = (max(map(len, self.rows.values())) - 1) * ROW_STEP + NODE_HEIGHT
        return content + (2 * SITE_MARGIN + SITE_HEAD if self.site is not None else 0.1)

    @property
    def levels(self) -> range:
        return range(min(self.rows), max(self.rows) + 1)

    def offset(self, node: Hashable) -> float:
        """Height of a node over the middle of its unit."""
        for row in self.rows.values():
            if node in row:
                head = SITE_HEAD / 2 if self.site is not None else 0.0
                return ((len(row) - 1) / 2 - row.index(node)) * ROW_STEP - head
        raise KeyError(node)

    def distance(self, other: _Unit) -> float:
        """How far apart the middles must be; nothing if the two share no level."""
        shared = self.levels.start < other.levels.stop and other.levels.start < self.levels.stop
        return (self.height + other.height) / 2 + SITE_GAP if shared else 0.0


class FlowLayout:
    """Places for the nodes of a flow. Made once, then only read.

    ``at`` has the middle of each node, ``boxes`` the sites' boxes, and ``routes`` the points that each edge
    leads through, ends included.
    """

    def __init__(self, nodes: Sequence[FlowNode], edges: Iterable[tuple[Hashable, Hashable]]) -> None:
        self.nodes = {node.id: node for node in nodes}
        self._edges = list(edges)
        for edge in self._edges:
            for end in edge:
                if end not in self.nodes:
                    raise ValueError(f"edge {edge!r} names {end!r}, which is none of the nodes")
        self._level: dict[Hashable, int] = {node.id: node.level for node in nodes}
        self._units: dict[Hashable, _Unit] = {}
        self._chains: list[list[Hashable]] = []
        self._make_units()
        self._place()
        self.at: dict[Hashable, Point] = {node: self._point(node) for node in self.nodes}
        self.boxes = self._boxes()
        self.routes = [[self._point(stop) for stop in chain] for chain in self._chains]

    def _make_units(self) -> None:
        by_site: dict[Hashable, _Unit] = {}
        for node in self.nodes.values():
            key: Hashable = ("site", node.site) if node.site is not None else ("node", node.id)
            unit = by_site.setdefault(key, _Unit(site=node.site))
            unit.rows[node.level].append(node.id)
            self._units[node.id] = unit
        for number, (start, end) in enumerate(self._edges):
            inside = set(self._units[start].levels) | set(self._units[end].levels)
            bends: list[Hashable] = []
            for level in range(self._level[start] + 1, self._level[end]):
                if level not in inside:
                    bend = ("bend", number, level)
                    bends.append(bend)
                    self._level[bend] = level
                    self._units[bend] = _Unit({level: [bend]}, is_bend=True)
            self._chains.append([start, *bends, end])

    def _place(self) -> None:
        """Bring connected units to the same height, sweep by sweep; those that share a level keep apart."""
        units = list({id(unit): unit for unit in self._units.values()}.values())
        links = [pair for chain in self._chains for pair in itertools.pairwise(chain)]
        pulls: dict[int, list[tuple[_Unit, float]]] = defaultdict(list)
        for start, end in links:
            one, two = self._units[start], self._units[end]
            if one is not two:
                step = one.offset(start) - two.offset(end)
                pulls[id(one)].append((two, -step))
                pulls[id(two)].append((one, step))
        for number, unit in enumerate(units):
            unit.y = -float(number)
        for _ in range(SWEEPS):
            wanted = {}
            for unit in units:
                aims = [other.y + step for other, step in pulls[id(unit)]] or [unit.y]
                # half the way only: two neighbours that both go all the way would change places for ever
                wanted[id(unit)] = (unit.y + sum(aims) / len(aims)) / 2
            _separate(units, wanted)

    def _point(self, node: Hashable) -> Point:
        return self._level[node] * LEVEL_STEP, self._units[node].y + self._units[node].offset(node)

    def _boxes(self) -> list[tuple[str, float, float, float, float]]:
        """Name, left, bottom, width and height of each site's box."""
        made = []
        for unit in {id(unit): unit for unit in self._units.values() if unit.site is not None}.values():
            left = unit.levels[0] * LEVEL_STEP - NODE_WIDTH / 2 - SITE_MARGIN
            right = unit.levels[-1] * LEVEL_STEP + NODE_WIDTH / 2 + SITE_MARGIN
            made.append((str(unit.site), left, unit.y - unit.height / 2, right - left, unit.height))
        return made


def _separate(units: list[_Unit], wanted: dict[int, float]) -> None:
    """Heights near the wanted ones, in their order, with room between units that share a level.

    Pushing everything up and pushing everything down both keep the distances, so their mean does too.
    """
    order = sorted(units, key=lambda unit: (wanted[id(unit)], unit.y))
    up: dict[int, float] = {}
    for place, unit in enumerate(order):
        below = [up[id(other)] + other.distance(unit) for other in order[:place] if other.distance(unit)]
        up[id(unit)] = max([wanted[id(unit)], *below])
    down: dict[int, float] = {}
    for place, unit in reversed(list(enumerate(order))):
        above = [down[id(other)] - other.distance(unit) for other in order[place + 1 :] if other.distance(unit)]
        down[id(unit)] = min([wanted[id(unit)], *above])
    for unit in units:
        unit.y = (up[id(unit)] + down[id(unit)]) / 2


def draw_flow(
    nodes: Iterable[tuple[Hashable, str, int, str | None, str]],
    edges: Iterable[tuple[Hashable, Hashable]],
    path: str | Path,
    title: str = "",
) -> Path:
    """Draw a flow into a file, whose suffix chooses PNG, SVG, …. The path is returned."""
    flow_figure(nodes, edges, title).savefig(path, facecolor="white")
    return Path(path)


def flow_figure(
    nodes: Iterable[tuple[Hashable, str, int, str | None, str]],
    edges: Iterable[tuple[Hashable, Hashable]],
    title: str = "",
) -> Any:
    """A figure with nodes ``(id, label, level, site, role)`` and edges ``(from, to)``.

    Roles in `ROLE_COLORS` have their colour, others get one.
    """
    from matplotlib.figure import Figure
    from matplotlib.patches import FancyBboxPatch

    layout = FlowLayout([FlowNode(*node) for node in nodes], edges)
    left, right, bottom, top = _bounds(layout)
    head = 0.8 if title else 0.45
    width, height = right - left + 0.6, top - bottom + 0.4 + head
    scale = 0.8
    figure = Figure(figsize=(width * scale, height * scale), dpi=130)
    axes = figure.add_axes((0.0, 0.0, 1.0, 1.0))
    axes.set_xlim(left - 0.3, right + 0.3)
    axes.set_ylim(bottom - 0.2, top + 0.2 + head)
    axes.set_aspect("equal")
    axes.axis("off")

    for name, x, y, box_width, box_height in layout.boxes:
        axes.add_patch(
            FancyBboxPatch(
                (x, y),
                box_width,
                box_height,
                boxstyle="round,pad=0,rounding_size=0.16",
                facecolor=_SITE_FILL,
                edgecolor=_SITE_EDGE,
                linewidth=1.1,
                zorder=1,
            )
        )
        axes.text(
            x + 0.14,
            y + box_height - 0.08,
            _fit(name, int(box_width / 0.092)),
            fontsize=8.5,
            color=_SITE_TEXT,
            va="top",
            ha="left",
            zorder=4,
        )
    for route in layout.routes:
        _draw_edge(axes, route)
    colors = _colors(layout)
    for node in layout.nodes.values():
        x, y = layout.at[node.id]
        axes.add_patch(
            FancyBboxPatch(
                (x - NODE_WIDTH / 2, y - NODE_HEIGHT / 2),
                NODE_WIDTH,
                NODE_HEIGHT,
                boxstyle="round,pad=0,rounding_size=0.12",
                facecolor=colors[node.role],
                edgecolor="white",
                linewidth=1.2,
                zorder=3,
            )
        )
        axes.text(
            x,
            y,
            _fit(node.label, 22),
            fontsize=10 if len(node.label) <= 16 else 7.5,
            color="white",
            ha="center",
            va="center",
            zorder=4,
        )
    if title:
        axes.text(left, top + head, title, fontsize=13, fontweight="bold", color="#2b3440", va="top", ha="left")
    _draw_legend(axes, colors, left, top + 0.26)
    return figure


def _bounds(layout: FlowLayout) -> tuple[float, float, float, float]:
    boxes = [(x, y, x + w, y + h) for _, x, y, w, h in layout.boxes]
    boxes += [
        (x - NODE_WIDTH / 2, y - NODE_HEIGHT / 2, x + NODE_WIDTH / 2, y + NODE_HEIGHT / 2)
        for x, y in layout.at.values()
    ] or [(0.0, 0.0, NODE_WIDTH, NODE_HEIGHT)]
    bends = [y for route in layout.routes for _, y in route]
    return (
        min(box[0] for box in boxes),
        max(box[2] for box in boxes),
        min([box[1] for box in boxes] + bends),
        max([box[3] for box in boxes] + bends),
    )


def _colors(layout: FlowLayout) -> dict[str, str]:
    roles = list(dict.fromkeys(node.role for node in sorted(layout.nodes.values(), key=lambda node: node.level)))
    others = [role for role in roles if role not in ROLE_COLORS]
    return {role: ROLE_COLORS.get(role) or _OTHER_COLORS[others.index(role) % len(_OTHER_COLORS)] for role in roles}


def _fit(text: str, length: int) -> str:
    return text if len(text) <= length else text[: length - 1] + "…"


def _draw_edge(axes: Any, route: list[Point]) -> None:
    """Smooth from the right side of the first node, level through the bends, to the left side of the last."""
    from matplotlib.patches import FancyArrowPatch
    from matplotlib.path import Path as Curve

    first, last = route[0], route[-1]
    points = [(first[0] + NODE_WIDTH / 2, first[1])]
    for x, y in route[1:-1]:
        points += [(x - NODE_WIDTH / 2, y), (x + NODE_WIDTH / 2, y)]
    points.append((last[0] - NODE_WIDTH / 2 - 0.03, last[1]))
    vertices, codes = [points[0]], [Curve.MOVETO]
    for number, (start, end) in enumerate(itertools.pairwise(points)):
        if number % 2:  # along the level that it passes
            vertices.append(end)
            codes.append(Curve.LINETO)
        else:
            reach = max(abs(end[0] - start[0]) * 0.5, 0.3)
            vertices += [(start[0] + reach, start[1]), (end[0] - reach, end[1]), end]
            codes += [Curve.CURVE4] * 3
    axes.add_patch(
        FancyArrowPatch(
            path=Curve(vertices, codes),
            arrowstyle="-|>,head_length=4.5,head_width=2.2",
            color=_LINE,
            linewidth=1.1,
            shrinkA=0,
            shrinkB=0,
            zorder=2,
            capstyle="round",
        )
    )


def _draw_legend(axes: Any, colors: dict[str, str], left: float, y: float) -> None:
    x = left
    for role, color in colors.items():
        axes.scatter([x + 0.1], [y], s=46, color=color, marker="s", zorder=4)
        axes.text(x + 0.3, y - 0.005, role, fontsize=9, color=_SITE_TEXT, va="center", ha="left")
        x += 0.6 + 0.12 * len(role)
