"""Stream interfaces registered as four plain functions, bound to a stream type, as in the thesis."""

import sys
from pathlib import Path

import numpy as np
import pytest

from gsdm_grid import Radio, StreamInterface, register_input_stream, register_result_stream, register_stream_interface
from gsdm_grid.errors import FunctionError, QueryError, SchemaError, UnknownName
from gsdm_grid.interfaces import EndOfStream, InterfaceContext, interfaces
from gsdm_grid.interfaces.function_interface import ASK_AGAIN_S
from gsdm_grid.model import create_stream_type
from gsdm_grid.testing import FakeClock

Level = create_stream_type("FunctionLevel", {"value": "float64"})
Loud = create_stream_type("FunctionLoud", {"peak": "float64"}, under=Level)


@pytest.fixture(autouse=True)
def forgotten():
    """What a test registers is forgotten after it."""
    before = set(interfaces.names())
    yield
    for name in set(interfaces.names()) - before:
        interfaces.remove(name)


def read(interface):
    values = []
    try:
        while True:
            values += interface.next(10).value.tolist()
    except EndOfStream:
        return values


def opened(name, stream_type=Level, clock=None, **options):
    interface = interfaces.get(name)(stream_type, options)
    interface.open(InterfaceContext() if clock is None else InterfaceContext(clock=clock))
    return interface


def test_the_four_functions_share_what_open_returns():
    calls = []

    def open_list(stream):
        calls.append(("open", stream.stream_type.name, dict(stream.options)))
        return [{"ts": 1, "value": 2.0}, (2, 3.0), Level.window(3, 4.0), Level.block(ts=[4, 5], value=[5, 6])]

    def next_item(items):
        if not items:
            raise EndOfStream
        return items.pop(0)

    def insert(items, window):
        calls.append(("insert", float(window.value)))

    register_stream_interface(
        "FunctionLevel", "items", open_list, next_item, insert, lambda items: calls.append(("close", len(items)))
    )
    interface = opened("items", address="here")
    interface.insert(Level.block(ts=[0, 1], value=[7, 8]))
    values = read(interface)
    interface.close()
    interface.close()
    assert values == [2, 3, 4, 5, 6]
    assert calls == [
        ("open", "FunctionLevel", {"address": "here"}), ("insert", 7.0), ("insert", 8.0), ("close", 0),
    ]  # fmt: skip


def test_none_is_a_pause_and_next_is_asked_again_soon():
    items = [{"ts": 0, "value": 1}, None, {"ts": 1, "value": 2}]
    register_stream_interface(Level, "pausing", next=lambda _: items.pop(0) if items else None)
    clock = FakeClock()
    interface = opened("pausing", clock=clock)
    assert interface.due_s() is None
    assert interface.next(10).value.tolist() == [1]
    assert interface.next(10).value.tolist() == [2]
    assert interface.next(10) is None
    assert interface.due_s() == clock.s + ASK_AGAIN_S
    items.append({"ts": 2, "value": 3})
    assert interface.next(10).value.tolist() == [3]
    assert interface.due_s() is None


def test_an_exhausted_iterator_ends_the_stream():
    rows = iter([(0, 1.0), (1, 2.0), (2, 3.0)])
    register_stream_interface(Level, "rows", next=lambda _: next(rows))
    interface = opened("rows")
    assert [len(interface.next(2)), len(interface.next(2))] == [2, 1]
    for _ in range(2):
        with pytest.raises(EndOfStream):
            interface.next(2)


def test_without_open_the_functions_get_the_interface_itself():
    scales = []
    register_stream_interface(Level, "plain", insert=lambda stream, window: scales.append(stream.options["scale"]))
    opened("plain", scale=3).insert(Level.block(ts=[0], value=[1]))
    assert scales == [3]


def test_an_option_path_counts_as_a_file_which_a_coordinator_may_limit():
    register_stream_interface(Level, "of_a_file", next=lambda _: None)
    assert interfaces.get("of_a_file").files({"path": "/data/x", "other": "/y"}) == [Path("/data/x")]


def test_insert_may_take_whole_blocks():
    blocks = []
    register_stream_interface(Level, "blocks", insert=lambda _, block: blocks.append(len(block)), whole=True)
    opened("blocks").insert(Level.block(ts=[0, 1, 2], value=np.ones(3)))
    assert blocks == [3]


def test_what_has_only_next_cannot_be_written_to_and_the_other_way_round():
    register_stream_interface(Level, "in_only", next=lambda _: None)
    register_stream_interface(Level, "out_only", insert=lambda _, window: None)
    with pytest.raises(QueryError, match="cannot be written to"):
        opened("in_only").insert(Level.block(ts=[0], value=[0]))
    with pytest.raises(QueryError, match="cannot be read from"):
        opened("out_only").next(1)


def test_what_a_function_raises_names_interface_and_function():
    def next_of_broken(_):
        raise ZeroDivisionError("the antenna fell over")

    register_stream_interface(Level, "broken", next=next_of_broken)
    with pytest.raises(FunctionError, match=r"'broken'.*next_of_broken.*the antenna fell over"):
        opened("broken").next(1)


def test_exit_calls_in_a_function_are_its_failures():
    register_stream_interface(Level, "leaving_open", open=lambda _: sys.exit(3), next=lambda _: None)
    with pytest.raises(FunctionError, match="SystemExit"):
        opened("leaving_open")


@pytest.mark.parametrize("end", ["finish", "pause", "close"])
def test_what_was_opened_is_closed_once_when_the_stream_ends_or_the_query_stops(end):
    closed = []
    register_stream_interface(Level, "ending", lambda _: "file", None, lambda file, window: None, closed.append)
    interface = opened("ending")
    interface.open(InterfaceContext())
    getattr(interface, end)()
    interface.close()
    assert closed == ["file"]


def test_a_source_is_closed_at_its_end():
    closed = []
    register_stream_interface(Level, "exhausted", lambda _: iter(()), next, None, lambda _: closed.append(True))
    with pytest.raises(EndOfStream):
        opened("exhausted").next(1)
    assert closed == [True]


def test_an_interface_reopens_after_it_was_closed():
    counts = {"open": 0, "close": 0}

    def count(what):
        counts[what] += 1

    register_stream_interface(
        Level, "again_and_again", lambda _: count("open"), lambda _: None, None, lambda _: count("close")
    )
    interface = opened("again_and_again")
    interface.close()
    interface.open(InterfaceContext())
    interface.close()
    assert counts == {"open": 2, "close": 2}


@pytest.mark.parametrize(
    ("arguments", "named", "message"),
    [
        ((Level, "x"), {}, "'x' needs a function next to be read from, or insert to be written to"),
        ((Level, "x"), {"open": len}, "needs a function next"),
        ((Level, "x"), {"next": "next_line"}, "next must be a function, got 'next_line'"),
        ((Level, "x"), {"read": len}, "takes the functions open, next, insert, close; got 'read'"),
        ((Level, "x", len, len, len, len, len), {}, "takes the functions open, next, insert, close; got 5 functions"),
        (("NoSuchType", "x"), {"next": len}, "unknown stream type 'NoSuchType'"),
        (("x", int), {}, "'x': expected a subclass of StreamInterface, or a stream type, the name and functions"),
        ((Level, StreamInterface), {}, "expected a name, then its class"),
    ],
)
def test_what_is_no_interface_is_refused_when_it_is_registered(arguments, named, message):
    with pytest.raises(QueryError, match=message):
        register_stream_interface(*arguments, **named)
    assert "x" not in interfaces.names()


def test_options_that_an_interface_names_are_checked():
    register_stream_interface(Level, "scaled", next=lambda _: None, options=["address", "scale"])
    with pytest.raises(UnknownName, match=r"unknown option .* 'scales'; did you mean 'scale'"):
        opened("scaled", scales=2)


def test_an_input_stream_of_another_type_is_refused_when_it_is_registered():
    register_stream_interface(Level, "levels", next=lambda _: None)
    assert register_input_stream(Loud, "here", "levels").options == {"address": "here"}
    with pytest.raises(SchemaError, match="expected 'FunctionLevel' or a subtype, as interface 'levels' takes"):
        register_input_stream(Radio, "here", "levels")


def test_a_result_stream_of_another_type_is_refused_when_it_is_registered():
    register_stream_interface(Level, "printed", insert=lambda _, window: None)
    with pytest.raises(SchemaError, match="as interface 'printed' takes, got 'Radio'"):
        register_result_stream("here", "printed", stream_type=Radio)


def test_a_class_may_be_bound_to_a_stream_type_too():
    class Silent(StreamInterface):
        """Says nothing."""

    for_radio = register_stream_interface("silent_radio", Silent, stream_type="Radio")
    assert register_stream_interface("silent", Silent) is Silent
    assert issubclass(for_radio, Silent)
    with pytest.raises(SchemaError, match="'Radio' or a subtype"):
        register_input_stream(Level, "here", "silent_radio")
    register_input_stream(Level, "here", "silent")


def test_functions_of_this_process_stay_in_it():
    register_stream_interface(Level, "levels", next=lambda _: None)
    assert register_input_stream(Level, "here", "levels").spec().live
    assert not register_input_stream(Level, "127.0.0.1:0", "udp").spec().live


PACKAGE = """
from gsdm_grid import StreamInterface, create_stream_type, register_stream_interface

Depth = create_stream_type("FunctionDepth", {"metres": "float64"})


class Sonar(StreamInterface):
    pass


def read(stream):
    "Read a depth."


echo = register_stream_interface(Depth, "echo", next=read)
"""


@pytest.fixture
def installed_package(tmp_path, monkeypatch):
    """An installed package with an entry point for an interface of functions, and a class without one."""
    site = tmp_path / "site-packages"
    metadata = site / "sonar_streams-1.dist-info"
    metadata.mkdir(parents=True)
    (site / "sonar_streams.py").write_text(PACKAGE)
    (metadata / "METADATA").write_text("Metadata-Version: 2.1\nName: sonar-streams\nVersion: 1\n")
    (metadata / "entry_points.txt").write_text("[gsdm.interfaces]\necho_sounder = sonar_streams:echo\n")
    monkeypatch.syspath_prepend(str(site))
    yield
    sys.modules.pop("sonar_streams", None)


def test_an_entry_point_may_name_an_interface_of_functions(installed_package):
    stream = register_result_stream("here", "echo_sounder")
    assert stream.spec().accepts.name == "FunctionDepth"
    assert interfaces.get("echo_sounder").__doc__ == "Read a depth."
    assert not stream.spec().live, "other processes find the entry point"


def test_an_installed_class_under_a_name_that_only_this_process_knows_stays_in_it(installed_package):
    from sonar_streams import Sonar

    register_stream_interface("sonar", Sonar)
    assert register_result_stream("here", "sonar").spec().live
    assert not register_result_stream("here", "sonar_streams:Sonar").spec().live
