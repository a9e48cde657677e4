"""What a command imports, seen in a process of its own."""

import subprocess
import sys


def test_help_imports_nothing_heavy():
    code = (
        "import sys\nfrom gsdm_grid.cli import app\n"
        "try:\n    app(['--help'])\nexcept SystemExit:\n    pass\n"
        "heavy = {'ray', 'pyspark', 'matplotlib', 'fastapi', 'sqlalchemy', 'httpx', 'pyarrow'}\n"
        "sys.exit(', '.join(heavy & set(sys.modules)) or 0)\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
