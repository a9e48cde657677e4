"""The time mark of what is made of several streams: what all of them have passed."""

from __future__ import annotations

from gsdm_grid.model import NO_TIME_MARK

_ENDED = 2**63 - 1


class LeastTimeMark:
    """The least time mark of several inputs; an input that has ended holds nothing up. ``mark`` never goes back."""

    def __init__(self, ports: int) -> None:
        self.marks = [NO_TIME_MARK] * ports
        self.mark = NO_TIME_MARK

    def passed(self, port: int, time_mark: int) -> bool:
        """An input has passed this time; says whether all have passed more than before."""
        if time_mark <= self.marks[port]:
            return False
        self.marks[port] = time_mark
        return self._advance()

    def closed(self, port: int) -> bool:
        """An input has ended; says whether those left have passed more than before."""
        self.marks[port] = _ENDED
        return self._advance()

    def _advance(self) -> bool:
        least = min(self.marks)
        if not self.mark < least < _ENDED:
            return False
        self.mark = least
        return True

    def snapshot(self) -> list[int]:
        """How far the inputs are, and the mark."""
        return [*self.marks, self.mark]

    def restore(self, snapshot: list[int]) -> None:
        """Inverse of `snapshot`."""
        *self.marks, self.mark = snapshot
