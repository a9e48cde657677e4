"""What Arrow is used with, seen in a process of its own."""

import subprocess
import sys


def test_pandas_is_not_imported_for_it():
    code = (
        "import sys\nimport numpy as np\nfrom gsdm_grid import PhysicalWindow, Radio\n"
        "from gsdm_grid.model.arrow import to_stream_batch\n"
        "x = np.ones((3, 4), np.complex64)\n"
        "block = Radio.block(ts=np.arange(3), x=x, y=x, z=x)\n"
        "for batch in (block.to_arrow(), block.stamped(np.array([1, 5, 6])).to_arrow(), to_stream_batch(block, 0)):\n"
        "    assert np.all(PhysicalWindow.from_arrow(batch).x == x)\n"
        "sys.exit('pandas' in sys.modules)\n"
    )
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0
