"""Hashes of column values that are the same in every process: of numbers by value, of text by its bytes."""

from __future__ import annotations

from zlib import crc32

import numpy as np
from numpy.typing import NDArray

from gsdm_grid.model import Array, Column, Ragged


def hash_values(column: Column) -> NDArray[np.uint64]:
    """A 64-bit hash per value of a column of real numbers or text."""
    if isinstance(column, Ragged):
        encoded = Ragged(column.values, column.offsets)
        return mixed(np.fromiter((crc32(text) for text in encoded), np.uint64, len(encoded)))
    return mixed(_bits(column))


def mixed(bits: NDArray[np.uint64]) -> NDArray[np.uint64]:
    """The finalizer of splitmix64 (Steele et al., 2014): every bit of the result depends on all of these."""
    bits = (bits ^ (bits >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    bits = (bits ^ (bits >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    made: NDArray[np.uint64] = bits ^ (bits >> np.uint64(31))
    return made


def _bits(values: Array) -> NDArray[np.uint64]:
    if values.dtype.kind in "iub":
        return values.astype(np.int64).view(np.uint64)
    floats = values.astype(np.float64) + 0.0  # minus zero equals zero
    floats[np.isnan(floats)] = np.nan  # whatever its sign and payload
    return floats.view(np.uint64)
