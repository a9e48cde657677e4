"""A live source that cannot wait: windows over UDP, more of them than the query can handle.

A thread sends windows to this machine's loopback address faster than the function works. The query declares what
happens then (``overload="drop_oldest"``), and every window that is dropped is counted.
"""

import socket
import threading
import time

import numpy as np

from gsdm_grid import Grid, central, cq, create_stream_type, current_window, register_input_stream, sqf
from gsdm_grid.interfaces import InterfaceContext, interfaces

Samples = create_stream_type("Samples", {"signal": "vector[64] of float32"})
Energy = create_stream_type("Energy", {"energy": "float64"})
SENT = 1000


@sqf(Samples, returns=Energy)
def slow_energy(s):
    """The energy of a window. The sleep stands for a function that takes two milliseconds."""
    window = current_window(s)
    time.sleep(0.002)
    return Energy.window(ts=window.ts, energy=np.sum(window.signal.astype(np.float64) ** 2))


def send(address: str, done: threading.Event) -> None:
    """What another program would do: send windows through a UDP sink, then say that the stream has ended."""
    sink = interfaces.get("udp")(Samples, {"to": address})
    sink.open(InterfaceContext())
    signal = np.random.default_rng(2).normal(size=(50, 64)).astype(np.float32)
    for first in range(0, SENT, 50):
        sink.insert(Samples.block(ts=np.arange(first, first + 50), signal=signal))
        time.sleep(0.005)
    sink.finish()
    while not done.wait(0.1):  # datagrams get lost: say it until somebody has heard
        sink.finish()
    sink.close()


def free_address() -> str:
    """A loopback address with a port that is free now."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
        probe.bind(("127.0.0.1", 0))
        return f"127.0.0.1:{probe.getsockname()[1]}"


def main() -> None:
    """Run the query until the sender says that the stream has ended."""
    address = free_address()
    source = register_input_stream(
        Samples, address, "udp", name="samples", overload="drop_oldest", buffer_bytes=16 << 10
    )
    done = threading.Event()
    sender = threading.Thread(target=send, args=(address, done))
    with Grid("threads") as grid:
        query = cq(central(slow_energy), [source], grid=grid)
        query.run()
        sender.start()
        times = [int(window.ts) for window in query]
        done.set()
        query.wait(30)
        counts = query.statistics()["compute.0"]["streams"]["samples"]
    sender.join()
    print(f"received {counts['received']}, delivered {counts['delivered']}, dropped {counts['dropped_oldest']}")
    print("results:", len(times), "in order:", times == sorted(times))
    print("nothing lost silently:", counts["received"] == counts["delivered"] + counts["dropped_oldest"])


if __name__ == "__main__":
    main()
