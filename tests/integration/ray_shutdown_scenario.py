"""Ends a program while its threads call Ray, which would end it in its own way. Run by `test_leases`."""

import contextlib
import sys
import threading

from gsdm_grid import PCC, Grid, register_input_stream
from gsdm_grid.errors import GsdmError

EXIT_CODE = 7


def install_and_drop(query, begun):
    with contextlib.suppress(GsdmError, RuntimeError):  # Python starts no thread any more
        while True:
            begun.set()
            query.install()
            query.uninstall()


def main():
    grid = Grid("ray")
    grid.pool("ray").warm()
    source = register_input_stream("Radio", None, "synthetic_radio", window=64)
    begun = [threading.Event() for _ in range(6)]
    for event in begun:
        query = grid.cq(PCC(4, "RRpart", "fft3", {}, "S-Merge"), [source])
        threading.Thread(target=install_and_drop, args=(query, event), daemon=True).start()
    for event in begun:
        event.wait()
    threading.Event().wait(float(sys.argv[1]))
    sys.exit(EXIT_CODE)


if __name__ == "__main__":
    main()
