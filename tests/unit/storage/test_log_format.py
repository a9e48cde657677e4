"""How a result log lies on disk: logs that were written by earlier versions are read."""

import struct
import zlib

import msgpack
import numpy as np
import pytest

from gsdm_grid.model import TypeRegistry, create_stream_type
from gsdm_grid.storage import ResultLog

Noted = create_stream_type("Noted", {"v": "vector of complex64", "note": "string"}, registry=TypeRegistry())


def noted(ordinals):
    rows = np.arange(3)
    vectors = (rows[:, None] + 1j * np.arange(4)).astype(np.complex64)
    return Noted.block(ts=rows * 10, v=vectors, note=["", "é", "plain"]).stamped(ordinals=ordinals)


def frame_of_the_first_version(block):
    """By the description of the format, independently of the code that writes it."""
    buffers = [block.ts, block.v, block.note.values, block.note.offsets]
    ordinals = block.ordinals
    if isinstance(ordinals, range):
        place = (ordinals.start, ordinals.stop, ordinals.step)
    else:
        place = None
        buffers.append(ordinals)
    header = msgpack.packb(([(0, (3,)), (0, (3, 4)), (1, 7, 4)], place, block.mark, None))
    payload = struct.pack(f"<II{len(buffers)}Q", len(header), len(buffers), *(each.nbytes for each in buffers))
    for part in (header, *(each.tobytes() for each in buffers)):
        payload += part + bytes(-len(part) % 8)
    checked = struct.pack("<QQQ", len(payload), 0, len(block)) + payload
    return b"GSRL" + struct.pack("<I", zlib.crc32(checked)) + checked


@pytest.mark.parametrize("ordinals", [range(5, 11, 2), np.array([5, 5, 8])])
def test_a_log_of_the_first_version_is_read_and_written(tmp_path, ordinals):
    block = noted(ordinals)
    ResultLog(tmp_path / "old", Noted).close()
    (tmp_path / "old" / f"{0:020d}.log").write_bytes(frame_of_the_first_version(block))
    old, new = ResultLog(tmp_path / "old"), ResultLog(tmp_path / "new", Noted)
    ((_, kept),) = old.read(0).blocks
    assert list(kept) == list(block)
    assert list(kept.ordinals) == list(ordinals)
    new.append(block)
    assert (tmp_path / "new" / f"{0:020d}.log").read_bytes() == frame_of_the_first_version(block)
    old.close()
    new.close()
