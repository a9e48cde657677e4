"""Law 7: referential transparency within one execution of an SQF.

However often and in whatever order a function asks its window functions, it is told the same; what it is told
it cannot change; and an execution that was given up for want of windows is told the same when it is repeated.
"""

import itertools

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gsdm_grid.functions import NeedMore, StreamView, current_window, sliding_window, time_window
from gsdm_grid.model import PhysicalWindow, Ragged, TypeRegistry, create_stream_type

SIGNAL = create_stream_type(
    "TransparentSignal",
    {"value": "float64", "x": "vector of float32", "pair": "vector[2] of int16", "name": "string"},
    registry=TypeRegistry(),
)
SETTINGS = settings(max_examples=80)


def signal(steps, ragged):
    count = len(steps)
    return SIGNAL.block(
        ts=np.cumsum(steps) * 1_000_000_000,
        value=np.arange(count) / 2,
        x=[np.full(row % 3 if ragged else 2, row, np.float32) for row in range(count)],
        pair=np.arange(2 * count).reshape(count, 2),
        name=[f"w{row}" for row in range(count)],
    ).stamped(range(count))


STREAMS = st.builds(signal, st.lists(st.integers(0, 3), min_size=1, max_size=25), st.booleans())
QUESTIONS = st.lists(
    st.just(("current",))
    | st.tuples(st.just("sliding"), st.integers(1, 6), st.just(0))
    | st.tuples(st.just("time"), st.integers(0, 8)),
    min_size=1,
    max_size=8,
)


@st.composite
def cut_streams(draw):
    """A stream cut into physical windows at any places, some of them empty."""
    block = draw(STREAMS)
    cuts = sorted(draw(st.lists(st.integers(0, len(block)), max_size=6)))
    bounds = [0, *cuts, len(block)]
    return block, [block[a:b] for a, b in itertools.pairwise(bounds)]


def ask(view, question, step):
    kind, *params = question
    if kind == "current":
        return current_window(view)
    if kind == "sliding":
        return sliding_window(view, params[0], step)
    return time_window(view, params[0])


def told(answer):
    """What an answer says, as plain values."""
    rows = answer if isinstance(answer, PhysicalWindow) else [answer]
    return [
        {name: value.tolist() if hasattr(value, "tolist") else value for name, value in row.values().items()}
        for row in rows
    ]


def expected(block, at, question):
    """The answer by its definition, over the whole stream."""
    kind, *params = question
    if kind == "current":
        return told(block[at])
    if kind == "sliding":
        return told(block[at : at + params[0]])
    times = block.ts[: at + 1]
    first = int(np.argmax(times >= times[at] - params[0] * 1_000_000_000))
    return told(block[first : at + 1])


@SETTINGS
@given(cut_streams(), QUESTIONS, st.integers(1, 5), st.randoms(use_true_random=False))
def test_asking_window_functions_again_gives_the_same(stream, questions, step, random):
    block, pieces = stream
    steps = any(kind == "sliding" for kind, *_ in questions)
    view, at = StreamView(SIGNAL), 0

    def execution():
        answers = [told(ask(view, question, step)) for question in questions]
        again = list(enumerate(questions)) * 2
        random.shuffle(again)
        for number, question in again:
            assert told(ask(view, question, step)) == answers[number]
        return answers

    for piece in pieces:
        view.feed(piece)
        while True:
            try:
                answers = execution()
            except NeedMore:
                break
            assert answers == [expected(block, at, question) for question in questions]
            view.advance()
            at += step if steps else 1
    longest = max((params[0] for kind, *params in questions if kind == "sliding"), default=1)
    assert at + longest > len(block)


@SETTINGS
@given(cut_streams(), QUESTIONS)
def test_execution_that_was_given_up_is_told_the_same_when_repeated(stream, questions):
    _, pieces = stream
    view = StreamView(SIGNAL)
    answers = {}
    for piece in pieces:
        view.feed(piece)
        for question in questions:
            try:
                answer = told(ask(view, question, 1))
            except NeedMore:
                continue
            assert answers.setdefault(question, answer) == answer


def arrays_of(answer):
    columns = answer.columns.values() if isinstance(answer, PhysicalWindow) else answer.values().values()
    for column in columns:
        if isinstance(column, Ragged):
            yield from (column.values, column.offsets)
        elif isinstance(column, np.ndarray):
            yield column


@SETTINGS
@given(cut_streams(), QUESTIONS, st.booleans())
def test_input_windows_cannot_be_written_to(stream, questions, whole):
    _, pieces = stream
    view = StreamView(SIGNAL, whole)
    for piece in pieces:
        view.feed(piece)
        for question in questions:
            try:
                answer = ask(view, question, 1)
            except NeedMore:
                continue
            for array in arrays_of(answer):
                with pytest.raises(ValueError, match="read-only"):
                    array[...] = 0
            with pytest.raises(TypeError, match="immutable"):
                answer.value = 0
            for row in answer if isinstance(answer, PhysicalWindow) else [answer]:
                with pytest.raises(TypeError, match="immutable"):
                    row.value = 0
                with pytest.raises(ValueError, match="read-only"):
                    row.pair[0] = 0
