"""Names: which ones people may give, and those of things that the system creates: queries, streams, installations.

Ids are short, readable and unique enough to be shown to people; the source of randomness is injected so that
tests can fix them.
"""

from __future__ import annotations

import itertools
import secrets
from collections.abc import Callable

NAME = r"^[A-Za-z][A-Za-z0-9_.-]{0,62}$"
"""What queries, streams, segments and tokens may be called."""
TokenSource = Callable[[], str]


def random_token() -> str:
    """Six hexadecimal digits from the system's randomness."""
    return secrets.token_hex(3)


class IdFactory:
    """Makes ``prefix-token-n`` ids: unique inside one factory by ``n``, between factories by the token."""

    def __init__(self, token_source: TokenSource = random_token) -> None:
        self._token = token_source()
        self._counter = itertools.count(1)

    def new(self, prefix: str) -> str:
        """The next id with this prefix."""
        return f"{prefix}-{self._token}-{next(self._counter)}"
