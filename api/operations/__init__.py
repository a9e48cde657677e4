"""Operations: actions that take time, carried out in order; and what becomes of those that end the coordinator."""

from api.operations.crash_watch import TRIALS, CrashWatch
from api.operations.failures import cannot_deliver, failure
from api.operations.operations import MEASURING, Operations, as_document

__all__ = [
    "MEASURING",
    "TRIALS",
    "CrashWatch",
    "Operations",
    "as_document",
    "cannot_deliver",
    "failure",
]
