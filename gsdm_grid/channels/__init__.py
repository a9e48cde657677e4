"""Channels: how windows travel between working nodes, with sequence numbers, credits and acknowledgements.

Shared memory on one machine, encrypted sockets between machines, one kind of channel for every arc. How windows enter
and leave the system is in `gsdm_grid.interfaces`; what happens to them in between is in `gsdm_grid.engine`.
"""

from gsdm_grid.channels.channel import ChannelLimits, End, Inlet, Item, Outlet
from gsdm_grid.channels.data_plane import DataPlane, local_address, machine_id
from gsdm_grid.channels.keys import InstallationKey
from gsdm_grid.channels.waker import Waker

__all__ = [
    "ChannelLimits",
    "DataPlane",
    "End",
    "Inlet",
    "InstallationKey",
    "Item",
    "Outlet",
    "Waker",
    "local_address",
    "machine_id",
]
