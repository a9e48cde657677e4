import numpy as np
import pytest

from gsdm_grid.model import StreamPosition, TypeRegistry, create_stream_type

Numbered = create_stream_type("Positioned", {"n": "int64"}, registry=TypeRegistry())


def windows(ordinals, mark=-1):
    rows = np.arange(len(ordinals))
    return Numbered.block(ts=rows, n=rows).stamped(
        ordinals if isinstance(ordinals, range) else np.array(ordinals), mark
    )


def new(position, ordinals):
    """Ordinals of what is new in a block, which is then read."""
    block = position.without_duplicates(windows(ordinals))
    position.advance(block)
    return list(block.ordinals)


@pytest.mark.parametrize("ordinals", [range(3, 8, 2), [3, 5, 7]])
def test_a_position_is_the_last_ordinal_and_how_many_windows_have_it(ordinals):
    position = StreamPosition()
    assert (position.ordinal, position.count) == (None, 0)
    position.advance(windows(ordinals))
    assert (position.ordinal, position.count) == (7, 1)
    position.advance(windows([7, 7]))
    assert (position.ordinal, position.count) == (7, 3)
    position.advance(windows([7, 9, 9]))
    assert (position.ordinal, position.count) == (9, 2)
    position.advance(windows([]))
    assert (position.ordinal, position.count) == (9, 2)


def test_nothing_is_left_out_unless_duplicates_are_expected():
    position = StreamPosition()
    assert new(position, range(5)) == [0, 1, 2, 3, 4]
    assert new(position, range(3, 6)) == [3, 4, 5]
    assert position.duplicates == 0


def test_nothing_is_left_out_at_the_beginning():
    position = StreamPosition()
    position.expect_duplicates()
    assert new(position, range(5)) == [0, 1, 2, 3, 4]


def test_as_many_windows_of_the_last_ordinal_are_left_out_as_were_read():
    position = StreamPosition()
    new(position, [0, 1, 4, 4])
    position.expect_duplicates()
    assert new(position, [1, 4]) == []
    assert new(position, [4, 4]) == [4]
    assert new(position, [4, 4, 5]) == [4, 4, 5]
    assert position.duplicates == 3


def test_duplicates_are_expected_until_a_greater_ordinal_came():
    position = StreamPosition()
    new(position, range(5))
    position.expect_duplicates()
    assert new(position, [4, 5]) == [5]
    assert new(position, [2]) == [2], "a producer that goes back later was not announced"


def test_a_producer_may_begin_again_while_it_still_repeats():
    position = StreamPosition()
    new(position, range(5))
    for _ in range(3):
        position.expect_duplicates()
        assert new(position, range(3)) == []
    assert new(position, range(3, 7)) == [5, 6]


def test_what_is_left_of_a_block_keeps_its_mark():
    position = StreamPosition()
    position.advance(windows(range(5)))
    position.expect_duplicates()
    assert position.without_duplicates(windows(range(3), mark=9)).mark == 9
    assert position.without_duplicates(windows(range(3, 6), mark=9)).mark == 9


def test_a_mark_stands_for_all_windows_up_to_it():
    position = StreamPosition()
    position.advance_to(6)
    position.advance_to(4)
    assert position.ordinal == 6
    position.expect_duplicates()
    assert new(position, [3, 6, 6, 6, 7]) == [7]


def test_a_reader_that_needs_nothing_from_before_an_ordinal_gets_it_whole():
    position = StreamPosition.before(5)
    position.expect_duplicates()
    assert new(position, [3, 4, 4, 5, 5, 6]) == [5, 5, 6]


def test_numbers_that_did_not_come_are_counted():
    position = StreamPosition()
    assert not position.has_passed(7)
    assert position.missing_before(7) == 0, "nobody knows where it began"
    position.advance_to(9)
    assert [position.has_passed(number) for number in (8, 9, 10)] == [True, True, False]
    assert [position.missing_before(number) for number in (8, 10, 13)] == [0, 0, 3]
