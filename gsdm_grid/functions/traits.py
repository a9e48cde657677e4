"""Traits: what a function declares about itself, so that nobody has to know it by its name.

The compiler, recovery, rescaling, sharing, the optimizer, pictures and pages ask for traits. A function that declares
none is an ordinary one: its results depend on its windows in a way that only its code knows. What it declares beside
traits (kind, state, use of neighbouring windows, strategies) is in `gsdm_grid.functions.sqf`.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Traits:
    """What others may rely on. Immutable; travels with its function.

    Of all functions:

    * ``keeps_time``: no result is earlier than the window at the cursor, so that what the input has passed, the results
      have passed too. None: that holds of functions without state, but their results may also be as early as the
      windows of a `time_window`; it is checked while they run. Functions with state may look back as far as they like.
    * ``spectra``: the vectors of its results are spectra, with frequencies in the order of the Fourier transform; or
      False: they are not. A function that does not say (None) gives spectra if it gets some.

    Of functions that read one stream:

    * ``relays``: it passes every window on as it came.
    * ``selects_by``: it passes windows on as they came, those for which the condition in this parameter holds.

    Of partitioning functions:

    * ``deals_in_turn``: parts get windows in turn, as their ordinals say; the parameters ``stride`` and ``run`` are the
      distance of neighbouring ordinals, and how many windows one part gets at a time.
    * ``overlaps``: parts get segments of the stream that share windows; it counts windows from the stream's beginning.
    * ``routes_by``: these parameters alone say which tuple goes where, so equal ones make the same split anywhere.
    * ``routes_blocks``: it deals physical windows, wherever in the stream they were cut.

    Of combining functions:

    * ``interleaves``: it passes all windows on as they came, in their order in the stream that they were parts of.
    * ``joins_parts``: it makes one window of the parts of a window.
    * ``by_arrival``: its results come in the order in which windows happen to arrive, so they are numbered anew.
    """

    keeps_time: bool | None = None
    spectra: bool | None = None
    relays: bool = False
    selects_by: str | None = None
    deals_in_turn: bool = False
    overlaps: bool = False
    routes_by: tuple[str, ...] = ()
    routes_blocks: bool = False
    interleaves: bool = False
    joins_parts: bool = False
    by_arrival: bool = False


ORDINARY = Traits()
