"""Channels: how windows travel between working nodes, with sequence numbers, credits and acknowledgements.

Shared memory on one machine, encrypted sockets between machines, one kind of channel for every arc. How windows enter
and leave the system is in `gsdm_grid.interfaces`; what happens to them in between is in `gsdm_grid.engine`.
"""

from gsdm_grid.channels.channel import ChannelLimits, End, Inlet, Item, Outlet
from gsdm_grid.channels.data_plane import DataPlane, local_address, machine_id
from gsdm_grid.channels.generator import GeneratorSource
from gsdm_grid.channels.interface import (
    EndOfStream,
    InterfaceContext,
    StreamInterface,
    check_accepted,
    equally_long,
    interfaces,
    register_stream_interface,
)
from gsdm_grid.channels.keys import InstallationKey
from gsdm_grid.channels.log_segment import end_of
from gsdm_grid.channels.memory import MemorySink
from gsdm_grid.channels.overload import POLICIES
from gsdm_grid.channels.pacing import Pacer
from gsdm_grid.channels.profiling import hardware, memory_file, remembered_block_bytes
from gsdm_grid.channels.result_log import ResultLog
from gsdm_grid.channels.tap import Tap, Taps, TapSource
from gsdm_grid.channels.window_picture import WindowPicture

__all__ = [
    "POLICIES",
    "ChannelLimits",
    "DataPlane",
    "End",
    "EndOfStream",
    "GeneratorSource",
    "Inlet",
    "InstallationKey",
    "InterfaceContext",
    "Item",
    "MemorySink",
    "Outlet",
    "Pacer",
    "ResultLog",
    "StreamInterface",
    "Tap",
    "TapSource",
    "Taps",
    "WindowPicture",
    "check_accepted",
    "end_of",
    "equally_long",
    "hardware",
    "interfaces",
    "local_address",
    "machine_id",
    "memory_file",
    "register_stream_interface",
    "remembered_block_bytes",
]
