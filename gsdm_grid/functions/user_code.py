"""What user code may raise: anything, also `SystemExit` and `KeyboardInterrupt`. Whoever calls it catches all.

Of a failure, people want to see the lines of their own code. What ran before and after them (the engine, Python's
library, installed packages) is left out.
"""

from __future__ import annotations

import signal
import sysconfig
import threading
import traceback
from pathlib import Path

from gsdm_grid.functions.windows import NeedMore

MOST_FRAMES = 20
"""Of a long traceback the last ones are shown."""
_PACKAGE = Path(__file__).parents[1]
_CALLERS = tuple(str(_PACKAGE / room) for room in ("engine", "interfaces"))
_INSTALLED = tuple({sysconfig.get_path(name) for name in ("stdlib", "platstdlib", "purelib", "platlib")})


def raised_by_user_code(error: BaseException) -> bool:
    """Whether something caught around a call of user code is a failure of that code.

    Not `NeedMore`, with which a window function leaves it, and not the Ctrl-C of a person at the keyboard: Python
    raises that in the main thread, and only if nobody has changed what the signal does.
    """
    if isinstance(error, KeyboardInterrupt):
        is_main = threading.current_thread() is threading.main_thread()
        return not (is_main and callable(signal.getsignal(signal.SIGINT)))
    return not isinstance(error, NeedMore)


def trace_in_user_code(error: BaseException) -> str:
    """The part of an error's traceback that is in user code: file, line and source line of each call.

    Of a function of our library or of an installed package, which has no such part: all below the engine.
    """
    frames = traceback.extract_tb(error.__traceback__)
    own = [frame for frame in frames if not _is_installed(frame.filename)]
    if not own:
        engine = [place for place, frame in enumerate(frames) if frame.filename.startswith(_CALLERS)]
        own = frames[engine[-1] + 1 :] if engine else frames
    return "".join(traceback.StackSummary.from_list(own[-MOST_FRAMES:]).format()).rstrip()


def _is_installed(file: str) -> bool:
    """Whether a source file belongs to us, to Python or to an installed package."""
    return file.startswith(("<frozen ", str(_PACKAGE), *_INSTALLED))
