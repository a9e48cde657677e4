"""Stream interfaces: how windows enter and leave the system. One file per medium.

How windows travel between working nodes is in `gsdm_grid.channels`, how results are kept on disk in
`gsdm_grid.storage`.
"""

from gsdm_grid.interfaces.generator import GeneratorSource
from gsdm_grid.interfaces.interface import (
    EndOfStream,
    InterfaceContext,
    StreamInterface,
    check_accepted,
    equally_long,
    interfaces,
    register_stream_interface,
)
from gsdm_grid.interfaces.memory import MemorySink
from gsdm_grid.interfaces.overload import POLICIES
from gsdm_grid.interfaces.pacing import Pacer
from gsdm_grid.interfaces.tap import Tap, Taps, TapSource
from gsdm_grid.interfaces.window_picture import WindowPicture

__all__ = [
    "POLICIES",
    "EndOfStream",
    "GeneratorSource",
    "InterfaceContext",
    "MemorySink",
    "Pacer",
    "StreamInterface",
    "Tap",
    "TapSource",
    "Taps",
    "WindowPicture",
    "check_accepted",
    "equally_long",
    "interfaces",
    "register_stream_interface",
]
