"""What was measured on this installation and is kept in files: the size of physical windows, the costs of splits."""

from gsdm_grid.tuning.split_profile import SplitProfile, keep_profile, kept_profile, needed_profile
from gsdm_grid.tuning.window_size import hardware, memory_file, remembered_block_bytes

__all__ = [
    "SplitProfile",
    "hardware",
    "keep_profile",
    "kept_profile",
    "memory_file",
    "needed_profile",
    "remembered_block_bytes",
]
