"""Hashes of values in another process."""

import subprocess
import sys


def test_hash_is_the_same_in_every_process():
    program = """
from gsdm_grid.functions.library.partitioning import hash_column
from gsdm_grid.model import TypeRegistry, create_stream_type
t = create_stream_type("T", {"name": "string", "x": "float64"}, registry=TypeRegistry())
b = t.block(ts=[1, 2], name=["a", "ö"], x=[0.5, 2])
print([hash_column(b, key).tolist() for key in b.type.attributes])
"""
    outputs = {
        subprocess.run(
            [sys.executable, "-c", program],
            capture_output=True,
            text=True,
            check=True,
            env={"PYTHONHASHSEED": seed},
        ).stdout
        for seed in ("1", "2")
    }
    assert len(outputs) == 1
