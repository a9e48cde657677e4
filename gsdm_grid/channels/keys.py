"""The installation's key: who holds it may connect; nobody else can.

All sockets between working nodes and their coordinator use CurveZMQ (encryption and authentication). One secret per
installation yields the key pair of every socket: a server's public key never travels in clear, so a process that does
not hold the secret cannot even say hello.
"""

from __future__ import annotations

import secrets
from typing import Any

import zmq
from zmq.utils import z85


class InstallationKey:
    """The secret and what is derived from it. Pickled to hosts over their own (trusted) launch path."""

    def __init__(self, secret: bytes | None = None) -> None:
        self.secret = secret or z85.encode(secrets.token_bytes(32))
        self.public: bytes = zmq.curve_public(self.secret)

    def secure_server(self, socket: Any) -> None:
        """Make a socket refuse peers without the key. Call before bind."""
        socket.curve_server = True
        socket.curve_secretkey = self.secret
        socket.curve_publickey = self.public

    def secure_client(self, socket: Any) -> None:
        """Make a socket able to talk to servers of this installation. Call before connect."""
        socket.curve_serverkey = self.public
        socket.curve_secretkey = self.secret
        socket.curve_publickey = self.public

    def __reduce__(self) -> tuple[Any, ...]:
        return (InstallationKey, (self.secret,))
