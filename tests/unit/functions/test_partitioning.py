import numpy as np
import pytest

from gsdm_grid.errors import SchemaError, UnknownAttribute
from gsdm_grid.functions.library.partitioning import RRpart, hash_column, hashpart
from gsdm_grid.model import TypeRegistry, create_stream_type

KEYS = create_stream_type(
    "Keys",
    {
        "whole": "int32",
        "large": "uint64",
        "real": "float64",
        "single": "float32",
        "name": "string",
        "flag": "bool",
        "wave": "complex64",
        "vector": "vector of int8",
        "pair": "vector[2] of int8",
    },
    registry=TypeRegistry(),
)


def keys(count=200, seed=0):
    rng = np.random.default_rng(seed)
    numbers = rng.integers(-20, 20, count)
    return KEYS.block(
        ts=np.arange(count),
        whole=numbers,
        large=(numbers + 20).astype(np.uint64) * np.uint64(2**58),
        real=numbers / 3,
        single=numbers / 4,
        name=[f"säule {number}" for number in numbers],
        flag=numbers > 0,
        wave=numbers * 1j,
        vector=[[1] * (n % 3) for n in range(count)],
        pair=np.zeros((count, 2), np.int8),
    ).stamped(range(count))


def dealt(ordinals, n, i, run=1, stride=1):
    return [place for place in ordinals if place // (stride * run) % n == i]


@pytest.mark.parametrize("n", [1, 2, 3, 7, 30])
@pytest.mark.parametrize("length", [1, 2, 5, 40])
@pytest.mark.parametrize("bounds", [(0, 20), (13, 33), (40, 41), (39, 79)])
def test_round_robin_deals_runs_in_turn(levels, view_of, length, n, bounds):
    block = levels(*bounds)
    parts = [RRpart(view_of(block, whole=True), n, i, run=length) for i in range(n)]
    for i, part in enumerate(parts):
        assert list(part.ordinals) == dealt(block.ordinals, n, i, length)
        assert (part.value * 2).astype(int).tolist() == list(part.ordinals)
    assert sorted(place for part in parts for place in part.ordinals) == list(block.ordinals)


def test_round_robin_of_single_windows_is_a_view_with_a_range_of_places(levels, view_of):
    block = levels(10, 30)
    part = RRpart(view_of(block, whole=True), 4, 1)
    assert part.ordinals == range(13, 30, 4)
    assert np.shares_memory(part.value, block.value)


def test_round_robin_of_long_runs_hands_the_whole_block_to_one_partition(levels, view_of):
    block = levels(64, 128)
    parts = [RRpart(view_of(block, whole=True), 3, i, run=64) for i in range(3)]
    assert parts[1] is block
    assert [len(part) for part in parts] == [0, 64, 0]


@pytest.mark.parametrize("stride", [1, 2, 4])
@pytest.mark.parametrize("start", [0, 1, 3, 17])
@pytest.mark.parametrize("length", [1, 3])
def test_round_robin_of_what_round_robin_left_deals_evenly(levels, view_of, stride, start, length):
    block = levels(start, start + 48)[::stride]
    parts = [RRpart(view_of(block, whole=True), 3, i, run=length, stride=stride) for i in range(3)]
    for i, part in enumerate(parts):
        assert list(part.ordinals) == dealt(block.ordinals, 3, i, length, stride)
    sizes = [len(part) for part in parts]
    assert sum(sizes) == len(block)
    assert max(sizes) - min(sizes) <= 2 * length


@pytest.mark.parametrize(("length", "stride"), [(1, 1), (3, 1), (1, 4), (2, 3)])
def test_round_robin_of_irregular_places_goes_by_ordinal(levels, view_of, length, stride):
    places = np.array([0, 1, 5, 6, 7, 30, 31, 32, 33, 90])
    block = levels(0, 10).stamped(places)
    parts = [RRpart(view_of(block, whole=True), 3, i, run=length, stride=stride) for i in range(3)]
    for i, part in enumerate(parts):
        assert list(part.ordinals) == dealt(places, 3, i, length, stride)


def test_round_robin_does_not_depend_on_how_the_stream_is_cut(levels, view_of):
    block = levels(0, 50)
    whole = list(RRpart(view_of(block, whole=True), 3, 2, run=4).ordinals)
    for cut in (1, 3, 4, 7):
        parts = [RRpart(view_of(block[a : a + cut], whole=True), 3, 2, run=4) for a in range(0, 50, cut)]
        assert [place for part in parts for place in part.ordinals] == whole


@pytest.mark.parametrize("key", ["ts", "whole", "large", "real", "single", "name", "flag"])
@pytest.mark.parametrize("n", [1, 2, 3, 8])
def test_hash_partitions_are_disjoint_complete_and_by_key(view_of, key, n):
    block = keys()
    parts = [hashpart(view_of(block, whole=True), n, i, key=key) for i in range(n)]
    assert sorted(place for part in parts for place in part.ordinals) == list(range(200))
    homes = {}
    for i, part in enumerate(parts):
        assert list(part.ordinals) == sorted(part.ordinals)
        for window in part:
            assert homes.setdefault(window.values()[key], i) == i


@pytest.mark.parametrize("key", ["ts", "whole", "large", "real", "name"])
def test_hash_partitions_are_used_evenly(view_of, key):
    block = keys(2000)
    sizes = [len(np.unique(list(hashpart(view_of(block, whole=True), 4, i, key=key)[key]))) for i in range(4)]
    assert min(sizes) > 0


def test_zero_and_minus_zero_are_one_key_and_so_is_every_nan(view_of):
    block = keys(6).replace(real=np.array([0.0, -0.0, np.nan, -np.nan, 1.0, np.inf]))
    odd = np.array([0x7FF8000000000001], np.uint64).view(np.float64)
    block = block.replace(real=np.concatenate([block.real[:5], odd]))
    hashes = hash_column(block, "real")
    assert hashes[0] == hashes[1]
    assert hashes[2] == hashes[3] == hashes[5]
    assert len(set(hashes.tolist())) == 3


def test_hash_is_that_of_the_value_whatever_the_width():
    block = keys(50)
    wide = create_stream_type("Wide", {"whole": "int64", "single": "float64"}, registry=TypeRegistry())
    other = wide.block(ts=block.ts, whole=block.whole, single=block.single)
    assert np.array_equal(hash_column(block, "whole"), hash_column(other, "whole"))
    assert np.array_equal(hash_column(block, "single"), hash_column(other, "single"))


@pytest.mark.parametrize("key", ["wave", "vector", "pair"])
def test_key_must_be_one_real_number_or_a_string(view_of, key):
    with pytest.raises(
        SchemaError, match=f"stream type 'Keys', attribute '{key}': expected one real number or a string"
    ):
        hashpart(view_of(keys(), whole=True), 2, 0, key=key)


def test_unknown_key_says_what_is_known(view_of):
    with pytest.raises(UnknownAttribute, match="unknown attribute 'nothing' of stream type 'Keys'"):
        hashpart(view_of(keys(), whole=True), 2, 0, key="nothing")
