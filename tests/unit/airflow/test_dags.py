"""The DAG files as people read them."""

from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[3]
MOST_LINES = 60


@pytest.mark.parametrize("file", sorted((ROOT / "dags").glob("*.py")), ids=lambda file: file.stem)
def test_a_dag_file_is_short(file):
    assert len(file.read_text().splitlines()) <= MOST_LINES
