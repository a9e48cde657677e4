"""Storage: result streams kept on disk, in files of checksummed frames, for any number of readers."""

from gsdm_grid.storage.log_file import end_of
from gsdm_grid.storage.result_log import ResultLog

__all__ = [
    "ResultLog",
    "end_of",
]
