"""Data flows and the templates that construct them.

Only the logical graph lives here: functions, arcs and logical sites. Binding it to streams and hosts is the business of
`gsdm_grid.compiler`.
"""

from gsdm_grid.flow.drawing import arcs, label
from gsdm_grid.flow.graph import DataFlow, Input, Site, SiteRole, Vertex, json_value, renamed, repeated
from gsdm_grid.flow.pushdown import push_selections
from gsdm_grid.flow.split_shapes import (
    Fanouts,
    autosplit_choice,
    cumulative_fanouts,
    exptree_fanouts,
    maxtree_fanouts,
    tree_nodes,
    window_splitters,
)
from gsdm_grid.flow.split_templates import (
    autosplit,
    exptree,
    fsplit,
    mapstream,
    maxtree,
    mergestream,
    parasplit,
    splitstream,
    splittree,
)
from gsdm_grid.flow.template_registry import TEMPLATES, Template, template
from gsdm_grid.flow.templates import BRANCH, PCC, at_most, build, central, lpipe, parallel, parallelize, partition, pipe

__all__ = [
    "BRANCH",
    "PCC",
    "TEMPLATES",
    "DataFlow",
    "Fanouts",
    "Input",
    "Site",
    "SiteRole",
    "Template",
    "Vertex",
    "arcs",
    "at_most",
    "autosplit",
    "autosplit_choice",
    "build",
    "central",
    "cumulative_fanouts",
    "exptree",
    "exptree_fanouts",
    "fsplit",
    "json_value",
    "label",
    "lpipe",
    "mapstream",
    "maxtree",
    "maxtree_fanouts",
    "mergestream",
    "parallel",
    "parallelize",
    "parasplit",
    "partition",
    "pipe",
    "push_selections",
    "renamed",
    "repeated",
    "splitstream",
    "splittree",
    "template",
    "tree_nodes",
    "window_splitters",
]
