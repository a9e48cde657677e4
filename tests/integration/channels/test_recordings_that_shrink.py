"""Recordings whose file becomes shorter while they are played: an error that names the file; the process goes on."""

import json
import subprocess
import sys

import numpy as np
import pytest

PROGRAM = """
import json, os, sys
from gsdm_grid.errors import QueryError
from gsdm_grid.interfaces import InterfaceContext, interfaces
from gsdm_grid.model import create_stream_type

interface, path, shrinks, attributes, options = sys.argv[1:4] + [json.loads(text) for text in sys.argv[4:]]
played = create_stream_type("Played", attributes)
source = interfaces.get(interface)(played, {"path": path, **options})
source.open(InterfaceContext())
first = source.next(40)
os.truncate(shrinks, os.path.getsize(shrinks) // 10)
sums = {name: float(abs(sum(vector.sum() for vector in first[name]))) for name in attributes}
try:
    while True:
        source.next(40)
except QueryError as error:
    print(json.dumps([str(error), sums]))
"""
VECTORS = np.ones((80, 10_000), np.float32)
SAMPLES = {"window": 10_000, "sample_rate": 1e6}


def saved(save):
    """A file that NumPy wrote, as a member of a case."""

    def write(path):
        with path.open("wb") as file:
            save(file)

    return write


def structured(file):
    rows = np.zeros(80, [("ts", np.int64), ("v", np.float32, (10_000,))])
    rows["ts"], rows["v"] = np.arange(80), VECTORS
    np.save(file, rows)


def ragged(file):
    np.savez(file, ts=np.arange(80), v=VECTORS.ravel(), **{"v.offsets": np.arange(81) * 10_000})


CASES = {
    "plain.npy": ("player", saved(lambda file: np.save(file, VECTORS)), {"v": "vector[10000] of float32"}, {}),
    "fortran.npy": (
        "player",
        saved(lambda file: np.save(file, np.asfortranarray(VECTORS))),
        {"v": "vector[10000] of float32"},
        {},
    ),
    "structured.npy": ("player", saved(structured), {"v": "vector[10000] of float32"}, {}),
    "stored.npz": (
        "player",
        saved(lambda file: np.savez(file, ts=np.arange(80), v=VECTORS)),
        {"v": "vector[10000] of float32"},
        {},
    ),
    "ragged.npz": ("player", saved(ragged), {"v": "vector of float32"}, {}),
    "raw": ("raw_iq", lambda path: path.write_bytes(VECTORS.tobytes()), {"v": "vector of float32"}, SAMPLES),
}


def played(*arguments):
    """Play a file that becomes shorter; gives the error and the sums of what was read before."""
    command = [sys.executable, "-c", PROGRAM, *map(str, arguments)]
    ended = subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)
    assert ended.returncode == 0, (ended.returncode, ended.stderr)
    return json.loads(ended.stdout)


@pytest.mark.parametrize("name", CASES)
def test_a_file_that_shrinks_while_it_is_played_is_an_error_and_what_was_read_stays_valid(tmp_path, name):
    interface, write, attributes, options = CASES[name]
    write(tmp_path / name)
    options = {"dtype": "rf32_le", **options} if interface == "raw_iq" else options
    error, sums = played(interface, tmp_path / name, tmp_path / name, json.dumps(attributes), json.dumps(options))
    assert f"{str(tmp_path / name)!r} has become shorter while it was played" in error
    assert sums == {"v": 40 * 10_000}


def test_a_sigmf_recording_that_shrinks_while_it_is_played_names_its_data_file(tmp_path):
    data = tmp_path / "r.sigmf-data"
    data.write_bytes(VECTORS.tobytes())
    about = {"core:datatype": "rf32_le", "core:sample_rate": 1e6, "core:version": "1.0.0"}
    meta = {"global": about, "captures": [{"core:sample_start": 0}], "annotations": []}
    (tmp_path / "r.sigmf-meta").write_text(json.dumps(meta))
    attributes, options = json.dumps({"v": "vector of float32"}), json.dumps({"window": 10_000})
    error, sums = played("sigmf", tmp_path / "r.sigmf-meta", data, attributes, options)
    assert f"{str(data)!r} has become shorter while it was played" in error
    assert sums == {"v": 40 * 10_000}
