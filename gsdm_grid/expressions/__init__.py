"""Expressions over attributes: parsed, checked and evaluated over columns; hashes of values. Pure.

What functions and splits make of them is in `gsdm_grid.functions`.
"""

from gsdm_grid.expressions.expression import Checked, Expression, TupleFault, parsed
from gsdm_grid.expressions.hashing import hash_values, mixed

__all__ = [
    "Checked",
    "Expression",
    "TupleFault",
    "hash_values",
    "mixed",
    "parsed",
]
