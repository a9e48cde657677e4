"""What user code may raise: anything, also `SystemExit` and `KeyboardInterrupt`. Whoever calls it catches all."""

from __future__ import annotations

import signal
import threading

from gsdm_grid.functions.windows import NeedMore


def raised_by_user_code(error: BaseException) -> bool:
    """Whether something caught around a call of user code is a failure of that code.

    Not `NeedMore`, with which a window function leaves it, and not the Ctrl-C of a person at the keyboard: Python
    raises that in the main thread, and only if nobody has changed what the signal does.
    """
    if isinstance(error, KeyboardInterrupt):
        is_main = threading.current_thread() is threading.main_thread()
        return not (is_main and callable(signal.getsignal(signal.SIGINT)))
    return not isinstance(error, NeedMore)
