"""Law 3: combine(f(part_0), …, f(part_k-1)) = f(window), within the tolerance of single precision.

Checked for every function that declares the strategy *window split*, found through the registry: what an
optimizer may choose must be right for any window, any degree and any mixture of lengths.
"""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gsdm_grid.functions import WINDOW_SPLIT, StreamView, functions
from gsdm_grid.functions.library.radio import CHANNELS, Radio

LIBRARY = [
    name
    for name in functions.names()
    if functions.get(name).code.__module__.startswith("gsdm_grid.functions.")
    and functions.get(name).strategy(WINDOW_SPLIT) is not None
]
ANY_LENGTH = {"polarize"}  # the others are split in equal parts only


@st.composite
def split_blocks(draw, any_length):
    """A radio block of up to five windows, equally long or not, and a degree that fits it."""
    degree = draw(st.integers(1, 9))
    lengths = st.integers(0, 60) if any_length else st.integers(0, 16).map(lambda m: m * degree)
    count = draw(st.integers(1, 5))
    chosen = draw(st.lists(lengths, min_size=count, max_size=count) | lengths.map(lambda length: [length] * count))
    rng = np.random.default_rng(draw(st.integers(0, 2**32)))
    scale = 10.0 ** draw(st.integers(-3, 3))

    def channel():
        flavour = draw(st.sampled_from(["noise", "real", "zero"]))
        noise = [scale * (rng.standard_normal(n) + 1j * rng.standard_normal(n)) for n in chosen]
        return [vector * 0 if flavour == "zero" else vector.real if flavour == "real" else vector for vector in noise]

    start = draw(st.integers(0, 1000))
    columns = {name: [vector.astype(np.complex64) for vector in channel()] for name in CHANNELS}
    block = Radio.block(ts=np.arange(count) * 10, **columns)
    return block.stamped(range(start, start + count), mark=start + count + draw(st.integers(0, 5))), degree


def whole(function, block, *params):
    view = StreamView(block.type, whole=True)
    view.feed(block)
    return function(view, *params)


def test_the_library_declares_window_split():
    assert set(LIBRARY) == {"fft3", "dft3", "polarize"}


@pytest.mark.parametrize("name", LIBRARY)
@settings(max_examples=60)
@given(data=st.data())
def test_window_split_preserves_the_function(name, data):
    function = functions.get(name)
    strategy = function.strategy(WINDOW_SPLIT)
    partition = functions.get(strategy.partition)
    combine = functions.get(strategy.resolve({})[1]["combine"])
    block, degree = data.draw(split_blocks(name in ANY_LENGTH))

    parts = [whole(function, whole(partition, block, degree, i)) for i in range(degree)]
    combined, expected = combine(parts), whole(function, block)

    assert combined.type == expected.type
    assert list(combined.ordinals) == list(expected.ordinals)
    assert combined.mark == expected.mark
    assert combined.ts.tolist() == expected.ts.tolist()
    for attribute in expected.type.attributes:
        for one, other in zip(combined[attribute], expected[attribute], strict=True):
            assert np.shape(one) == np.shape(other)
            tolerance = 1e-5 * float(np.abs(other).max(initial=0))
            np.testing.assert_allclose(one, other, rtol=0, atol=tolerance)
