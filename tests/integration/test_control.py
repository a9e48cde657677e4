"""The control server: what it issues, and what it remembers of commands that nobody answers."""

import msgpack
import pytest
import zmq

from gsdm_grid import PCC, Radio, register_input_stream
from gsdm_grid.channels.keys import InstallationKey
from gsdm_grid.coordination.control import ControlServer
from gsdm_grid.errors import NodeLost
from gsdm_grid.testing import eventually


@pytest.fixture
def key():
    return InstallationKey()


@pytest.fixture
def control(key):
    server = ControlServer(key, lambda event: None)
    yield server
    server.close()


@pytest.fixture
def node(control, key):
    """The socket of a node that has registered as ``q/s``, and answers only what the test sends."""
    context = zmq.Context()
    socket = context.socket(zmq.DEALER)
    key.secure_client(socket)
    socket.linger = 0
    socket.rcvtimeo = 30_000
    control.expect(["q/s"])
    socket.connect(control.endpoint)
    place = {"endpoint": "tcp://127.0.0.1:1", "pid": 1, "machine": "m", "host": "h"}
    socket.send(msgpack.packb({"event": "register", "node": "q/s", **place}))
    control.wait_for(["q/s"], 30, lambda: None)
    yield socket
    socket.close()
    context.term()


def received(node):
    """The next command, but for pings."""
    while (command := msgpack.unpackb(node.recv()))["do"] == "ping":
        pass
    return command


def answer(node, command, value):
    node.send(msgpack.packb({"event": "reply", "node": "q/s", "id": command["id"], "value": value}))


def test_a_command_that_nobody_answers_in_time_is_forgotten(control, node):
    with pytest.raises(NodeLost, match="no answer within 0 s"):
        control.call("q/s", {"do": "statistics"}, timeout_s=0)
    assert not control._pending


def test_an_answer_that_comes_too_late_is_dropped_and_the_next_one_is_heard(control, node):
    with pytest.raises(NodeLost, match="no answer"):
        control.call("q/s", {"do": "first"}, timeout_s=0)
    answer(node, received(node), "late")
    call = control.send("q/s", {"do": "second"})
    answer(node, received(node), "in time")
    assert control.result(call, 30) == "in time"
    assert not control._pending


def test_who_waits_for_a_node_that_is_gone_is_told(control, node):
    call = control.send("q/s", {"do": "first"})
    control.forget(["q/s"])
    with pytest.raises(NodeLost, match="it is gone"):
        control.result(call, 30)


def test_every_installation_of_a_producer_gets_a_later_epoch(make_grid, radio_block):
    query = make_grid("threads").cq(
        PCC(2, "RRpart", "fft3", {}, "S-Merge"), [register_input_stream(Radio, radio_block(4, 8))]
    )
    query.install()

    def epochs():
        site = query.plan.site("compute.0")
        commands = query._hosts.commands(query.plan, site)
        return [epoch for one in commands if (epoch := one.get("settings", {}).get("epoch")) is not None]

    first, second = epochs(), epochs()
    assert len(first) == len(second) == 1
    assert 0 < first[0] < second[0]
    query.drop()
    eventually(lambda: query.state == "dropped")
