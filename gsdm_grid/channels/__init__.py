"""How windows travel: stream interfaces at the borders, channels between working nodes.

Interfaces (`interface` and one file per medium) connect the system with the world; channels connect working nodes
with sequence numbers, credits and acknowledgements. What happens to windows in between is in `gsdm_grid.engine`.
"""

from gsdm_grid.channels.interface import (
    EndOfStream,
    InterfaceContext,
    StreamInterface,
    check_accepted,
    interfaces,
    register_stream_interface,
)


__all__ = [
    "EndOfStream",
    "InterfaceContext",
    "StreamInterface",
    "check_accepted",
    "interfaces",
    "register_stream_interface",
]
