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


def builtin_interfaces() -> None:
    """Import the built-in interfaces, which registers them."""
    from gsdm_grid.channels import (  # noqa: F401
        generator,
        memory,
        player,
        rawiq,
        recorder,
        result_log,
        sigmf,
        stdout,
        tap,
        tcp,
        udp,
        visualize,
    )


__all__ = [
    "EndOfStream",
    "InterfaceContext",
    "StreamInterface",
    "builtin_interfaces",
    "check_accepted",
    "interfaces",
    "register_stream_interface",
]
