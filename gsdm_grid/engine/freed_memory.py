"""Keeping freed memory for the next block.

A working node makes and frees arrays of the size of physical windows all the time. The C library gives memory of that
size back to the operating system at once, and a page fault for every four kilobytes brings it in again, which takes
longer than filling it: a splitter spends three quarters of its time there.
"""

from __future__ import annotations

import numpy as np

_LARGEST_HEAP_ARRAY = (32 << 20) - (64 << 10)


def keep_freed_memory() -> None:
    """Let the C library keep what this process frees, up to some tens of megabytes.

    glibc takes the size of the largest array that was freed so far, up to 32 MB, for the size that is worth keeping,
    and twice that for how much free memory may lie at the end of the heap. So one large array is made and freed. Where
    memory is managed otherwise this does nothing.
    """
    np.empty(_LARGEST_HEAP_ARRAY, np.uint8)
