import struct

import msgpack
import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from gsdm_grid.errors import ChannelError
from gsdm_grid.model import NO_TIME_MARK, PhysicalWindow, Ragged, TypeRegistry, create_stream_type
from gsdm_grid.model.wire import describe, pack, rebuild, unpack

FUZZ = settings(max_examples=300, suppress_health_check=[HealthCheck.too_slow])
MIXED = create_stream_type(
    "Mixed",
    {
        "n": "uint16",
        "x": "vector of complex64",
        "m": "vector[2,2] of float32",
        "name": "string",
        "flag": "bool",
    },
    registry=TypeRegistry(),
)


def mixed(count, ragged):
    return MIXED.block(
        ts=np.arange(count),
        n=np.arange(count),
        x=[np.ones(row % 3 if ragged else 4, np.complex64) * row for row in range(count)],
        m=np.ones((count, 2, 2)),
        name=["é" * (row % 3) for row in range(count)],
        flag=np.arange(count) % 2 == 0,
    )


def sent(block):
    header, arrays = describe(block)
    return header, [np.ascontiguousarray(array).tobytes() for array in arrays]


@pytest.mark.parametrize("ragged", [False, True])
@pytest.mark.parametrize("count", [0, 1, 6])
def test_block_rebuilt_from_its_wire_form_is_the_same(make_block, assert_same, count, ragged):
    block = make_block(count, ragged)
    regular, irregular = range(4, 4 + 2 * count, 2), np.arange(count) ** 2
    for each in (block, block.stamped(regular, 50, 1), block.stamped(irregular, 60), block[1:4], block[::2]):
        assert_same(rebuild(each.type, *sent(each)), each)


def test_marks_travel_without_windows(everything):
    again = rebuild(everything, *sent(PhysicalWindow.empty(everything, 17, 0)))
    assert (len(again), again.mark, again.halo) == (0, 17, 0)


def test_numpy_integers_as_mark_and_halo_can_be_sent(make_block):
    block = make_block(3).stamped(mark=np.int64(9), halo=np.int32(1))
    again = rebuild(block.type, *sent(block))
    assert (again.mark, again.halo) == (9, 1)


def test_describing_a_block_copies_no_payload():
    block = mixed(6, ragged=False)[::2]
    _, arrays = describe(block)
    assert np.shares_memory(arrays[2], block.x)
    assert arrays[2].strides == block.x.strides


@pytest.mark.parametrize("ragged", [False, True])
def test_rebuilt_block_views_the_buffers_and_cannot_be_written_to(ragged):
    header, buffers = sent(mixed(5, ragged))
    memory = [bytearray(buffer) for buffer in buffers]
    block = rebuild(MIXED, header, memory)
    values = block.x.values if isinstance(block.x, Ragged) else block.x
    assert np.shares_memory(values, np.frombuffer(memory[2], np.uint8))
    assert not values.flags.writeable
    assert not block.ts.flags.writeable


def test_buffers_may_be_longer_than_what_they_hold(assert_same):
    block = mixed(4, ragged=True)
    header, buffers = sent(block)
    assert_same(rebuild(MIXED, header, [buffer + b"padding" for buffer in buffers]), block)


def malformed(header, buffers):
    with pytest.raises(ChannelError, match="malformed physical window of type 'Mixed'"):
        rebuild(MIXED, header, buffers)


def changed(position, value, ragged=True):
    header, buffers = sent(mixed(3, ragged))
    fields = msgpack.unpackb(header)
    at = fields
    for step in position[:-1]:
        at = at[step]
    at[position[-1]] = value
    malformed(msgpack.packb(fields), buffers)


@pytest.mark.parametrize("value", [None, 3, [], {}, "x", b"", [[0, [3]]] * 5, [[0, [3]]] * 7])
def test_layout_must_have_one_entry_per_attribute(value):
    changed([0], value)


@pytest.mark.parametrize(
    "value",
    [
        None,
        3,
        [],
        [0],
        [0, None],
        [0, 3],
        [0, []],
        [0, [-1]],
        [0, [4]],
        [0, [2]],
        [0, [3, 1]],
        [0, [1.5]],
        [0, ["3"]],
        [0, [True]],
        [0, [2**40]],
        [0, [2**32, 2**32]],
        [0, [[3]]],
        [1, 3, 4],
        [7, [3, 2]],
        {},
    ],
)
def test_entry_of_a_scalar_must_fit_it(value):
    changed([0, 1], value)


@pytest.mark.parametrize(
    "value",
    [
        [0, [3]],
        [0, [3, -1]],
        [0, [3, 2, 2]],
        [0, [2**33, 2**31]],
        [1, -1, 4],
        [1, 3, -1],
        [1, 3, 0],
        [1, 3, 5],
        [1, 2, 4],
        [1, 3],
        [1, None, 4],
        [1, 3, None],
        [1, 2**62, 4],
        [1, 3.0, 4],
    ],
)
def test_entry_of_a_varying_vector_must_fit_it(value):
    changed([0, 2], value)


@pytest.mark.parametrize("value", [[0, [3, 4]], [0, [3, 4, 1]], [0, [3, -2, -2]], [1, 12, 4]])
def test_entry_of_a_matrix_must_fit_it(value):
    changed([0, 3], value)


@pytest.mark.parametrize("value", [[0, [3]], [0, [3, 2]], [1, 5, 4]])
def test_entry_of_a_string_must_fit_it(value):
    changed([0, 4], value)


@pytest.mark.parametrize(
    "value",
    [
        3,
        "abc",
        [],
        [0],
        [0, 3],
        [0, 3, 0],
        [3, 0, -1],
        [0, 4, 1],
        [0, 3.0, 1],
        [0, 2**63, 2**62],
        [2**63, 2**63 + 3, 1],
        {},
        [None, 3, 1],
    ],
)
def test_ordinals_must_rise_and_count_the_windows(value):
    changed([1], value)


@pytest.mark.parametrize("value", [None, 1.5, "1", 2**63, True, []])
def test_mark_must_be_an_integer(value):
    changed([2], value)


@pytest.mark.parametrize("value", [-1, 1.5, "1", 2**63, True, []])
def test_halo_must_be_nothing_or_a_count(value):
    changed([3], value)


@pytest.mark.parametrize("value", [None, 1.5, "1", 2**63, True, []])
def test_time_mark_must_be_an_integer(value):
    header, buffers = sent(mixed(3, True).stamped(time_mark=7))
    malformed(msgpack.packb([*msgpack.unpackb(header)[:4], value]), buffers)


def test_header_of_an_earlier_version_ends_before_later_fields(assert_same):
    block = mixed(3, ragged=True).stamped(range(4, 7), mark=9)
    header, buffers = sent(block)
    *before, halo = msgpack.unpackb(header)
    assert halo is None
    for fields in (before, [*before, halo, NO_TIME_MARK]):
        assert_same(rebuild(MIXED, msgpack.packb(fields), buffers), block)
    malformed(msgpack.packb(before[:2]), buffers)  # a mark has always been there


def test_header_with_a_field_too_many_is_malformed():
    header, buffers = sent(mixed(3, True))
    malformed(msgpack.packb([*msgpack.unpackb(header), NO_TIME_MARK, None]), buffers)


@pytest.mark.parametrize("header", [b"", b"\xc1", b"\x93", msgpack.packb([]), msgpack.packb(3), b"\x94" * 600])
def test_header_must_be_what_describe_makes(header):
    malformed(header, sent(mixed(3, True))[1])


def test_header_with_something_behind_it_is_malformed():
    header, buffers = sent(mixed(3, True))
    malformed(header + b"\x00", buffers)


def test_missing_buffers_are_malformed():
    header, buffers = sent(mixed(3, True).stamped(np.array([1, 3, 4])))
    for count in range(len(buffers)):
        malformed(header, buffers[:count])


def test_truncated_buffers_are_malformed():
    header, buffers = sent(mixed(3, True))
    for number, buffer in enumerate(buffers):
        for short in {0, len(buffer) // 2, len(buffer) - 1}:
            malformed(header, [*buffers[:number], buffer[:short], *buffers[number + 1 :]])


@pytest.mark.parametrize("buffer", [None, 3, "text", [1], memoryview(bytes(64))[::2]])
def test_what_is_no_buffer_is_malformed(buffer):
    header, buffers = sent(mixed(3, True))
    malformed(header, [buffer, *buffers[1:]])


@pytest.mark.parametrize("offsets", [[1, 1, 2, 3], [0, 2, 1, 3], [0, 1, 2, 2], [0, 1, 2, 4], [0, -5, 2, 3]])
def test_offsets_must_fit_the_values(offsets):
    header, buffers = sent(mixed(3, True))
    malformed(header, [*buffers[:3], np.array(offsets, np.int64).tobytes(), *buffers[4:]])


def test_strings_must_be_text():
    header, buffers = sent(mixed(3, True))  # "", "é", "éé"
    malformed(header, [*buffers[:5], b"\xff" * 6, *buffers[6:]])
    malformed(header, [*buffers[:6], np.array([0, 1, 2, 6]).tobytes(), *buffers[7:]])


def read_all(block):
    """Whatever came through may be read without surprises."""
    for window in block:
        assert window.values().keys() == MIXED.attributes.keys()
    assert len(block.ordinals) == len(block)
    assert block.nbytes >= 0
    assert isinstance(block.mark, int)


def attempt(header, buffers):
    try:
        block = rebuild(MIXED, header, buffers)
    except ChannelError:
        return
    read_all(block)


@FUZZ
@given(st.binary(max_size=60), st.lists(st.binary(max_size=40), max_size=12))
def test_random_bytes_are_either_a_block_or_a_channel_error(header, buffers):
    attempt(header, buffers)


NOISE = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(2**63), 2**64 - 1)
    | st.floats()
    | st.text(max_size=3)
    | st.binary(max_size=3),
    lambda inner: st.lists(inner, max_size=7) | st.dictionaries(st.text(max_size=2), inner, max_size=2),
    max_leaves=12,
)
SMALL = st.integers(-2, 5)
ENTRY = st.tuples(st.just(0), st.lists(SMALL, max_size=3)) | st.tuples(st.just(1), SMALL, SMALL) | NOISE
HEADER = st.tuples(
    st.lists(ENTRY, min_size=6, max_size=6) | NOISE,
    st.none() | st.tuples(SMALL, SMALL, SMALL) | NOISE,
    st.integers(-2, 5) | NOISE,
    st.none() | st.integers(-2, 5) | NOISE,
)


@FUZZ
@given(HEADER | NOISE, st.lists(st.binary(max_size=64), max_size=10))
def test_random_headers_are_either_a_block_or_a_channel_error(fields, buffers):
    attempt(msgpack.packb(fields), buffers)


@FUZZ
@given(st.data(), st.booleans(), st.booleans())
def test_damaged_wire_forms_are_either_a_block_or_a_channel_error(data, ragged, irregular):
    block = mixed(3, ragged)
    header, buffers = sent(block.stamped(np.array([1, 4, 5])) if irregular else block)
    for _ in range(data.draw(st.integers(1, 3))):
        if data.draw(st.booleans()):
            header = damaged(data, header)
        else:
            number = data.draw(st.integers(0, len(buffers) - 1))
            buffers[number] = damaged(data, buffers[number])
    attempt(header, buffers)


def damaged(data, given_bytes):
    if not given_bytes or data.draw(st.booleans()):
        return given_bytes[: data.draw(st.integers(0, len(given_bytes)))]
    at = data.draw(st.integers(0, len(given_bytes) - 1))
    return given_bytes[:at] + bytes([data.draw(st.integers(0, 255))]) + given_bytes[at + 1 :]


# In one piece


def packed(block):
    return b"".join(bytes(piece) for piece in pack(block))


def refused(data, windows, reason=""):
    with pytest.raises(ChannelError, match=f"malformed physical window of type 'Mixed': .*{reason}"):
        unpack(MIXED, data, windows)


@pytest.mark.parametrize("ragged", [False, True])
@pytest.mark.parametrize("count", [0, 1, 6])
def test_unpacked_block_is_the_same(make_block, assert_same, count, ragged):
    block = make_block(count, ragged)
    irregular = block.stamped(np.arange(count) ** 2, 60, 2)
    for each in (block, irregular, block[1:4], block[::2]):
        assert_same(unpack(each.type, packed(each), len(each)), each)


def test_packed_block_is_laid_out_as_documented():
    block = mixed(3, ragged=True).stamped(np.array([1, 4, 5]))
    header, buffers = sent(block)
    parts = [struct.pack("<II", len(header), len(buffers)), *(struct.pack("<Q", len(buffer)) for buffer in buffers)]
    for part in (header, *buffers):
        parts += [part, bytes(-len(part) % 8)]
    assert packed(block) == b"".join(parts)


def test_packing_copies_no_payload_and_unpacking_views_it():
    block = mixed(6, ragged=False)
    assert any(isinstance(piece, np.ndarray) and np.shares_memory(piece, block.x) for piece in pack(block))
    data = packed(block)
    assert np.shares_memory(unpack(MIXED, data, 6).x, np.frombuffer(data, np.uint8))


def test_truncated_and_extended_packed_blocks_are_malformed():
    data = packed(mixed(3, ragged=True))
    for size in range(len(data)):
        refused(data[:size], 3)
    for more in (b"\0", bytes(8)):
        refused(data + more, 3, f"{len(data)} bytes announced, {len(data) + len(more)} present")


def test_packed_block_with_another_number_of_windows_is_malformed():
    refused(packed(mixed(3, ragged=True)), 4, "4 windows announced, 3 present")


@pytest.mark.parametrize(("at", "form"), [(0, "<I"), (4, "<I"), (8, "<Q"), (16, "<Q")])
@pytest.mark.parametrize("value", [0, 1, 2**31, 2**32 - 1])
def test_wrong_lengths_are_malformed(at, form, value):
    data = bytearray(packed(mixed(3, ragged=True)))
    struct.pack_into(form, data, at, value)
    refused(bytes(data), 3)


@FUZZ
@given(st.data(), st.booleans(), st.binary(max_size=80))
def test_damaged_packed_blocks_are_either_a_block_or_a_channel_error(data, ragged, noise):
    whole = packed(mixed(3, ragged))
    for _ in range(data.draw(st.integers(1, 3))):
        whole = damaged(data, whole)
    for each in (whole, noise):
        try:
            block = unpack(MIXED, each, 3)
        except ChannelError:
            continue
        assert len(block) == 3
        read_all(block)
