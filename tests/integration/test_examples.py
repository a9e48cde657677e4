"""The examples run as people run them: each as a script of its own."""

import subprocess
import sys
from pathlib import Path

import pytest

EXAMPLES = Path(__file__).resolve().parents[2] / "examples"
EXPECTED = {
    "window_split.py": ["window 0: strongest at frequency 64 of 1024", "windows of the second run: [3, 4, 5]"],
    "own_function.py": ["central plan: 117 results", "parallel plan gives the same: True"],
    "own_split.py": ["central plan: 50 results of 4096 pixels", "parallel plan gives the same: True"],
    "udp_live.py": ["in order: True", "nothing lost silently: True"],
}


def test_every_example_is_tested():
    assert {path.name for path in EXAMPLES.glob("*.py")} == set(EXPECTED)


@pytest.mark.parametrize("name", EXPECTED)
def test_an_example_runs_and_ends_by_itself(name, tmp_path):
    done = subprocess.run(
        [sys.executable, EXAMPLES / name], cwd=tmp_path, capture_output=True, text=True, timeout=120, check=False
    )
    assert done.returncode == 0, done.stderr
    assert not done.stderr, done.stderr
    for line in EXPECTED[name]:
        assert line in done.stdout
    assert list(tmp_path.iterdir()) == []
