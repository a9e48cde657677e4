"""How benchmarks talk: arguments, progress lines, a table at the end, and one JSON object on the last line."""

from __future__ import annotations

import argparse
import json
import os
import statistics
import sys
import time
from collections.abc import Mapping, Sequence
from typing import Any


def arguments(doc: str) -> argparse.Namespace:
    """``--json`` and ``--quick``, which every benchmark takes."""
    parser = argparse.ArgumentParser(description=doc)
    parser.add_argument("--json", action="store_true", help="only the JSON object, on the last line")
    parser.add_argument("--quick", action="store_true", help="shorter runs: for a look, not for a figure")
    return parser.parse_args()


class Report:
    """Collects figures; prints progress to standard error, the table and the JSON to standard output."""

    def __init__(self, title: str, only_json: bool) -> None:
        self._title = title
        self._only_json = only_json
        self._rows: list[Sequence[Any]] = []
        self._started_s = time.monotonic()

    def progress(self, text: str) -> None:
        """One line of progress."""
        print(f"[{time.monotonic() - self._started_s:6.1f} s] {text}", file=sys.stderr, flush=True)

    def row(self, *cells: Any) -> None:
        """One row of the table; the first row is its head."""
        self._rows.append(cells)

    def finish(self, figures: Mapping[str, Any]) -> int:
        """Print table and JSON."""
        if not self._only_json:
            from rich.console import Console
            from rich.table import Table

            table = Table(title=self._title)
            for name in self._rows[0]:
                table.add_column(str(name), justify="right")
            for cells in self._rows[1:]:
                table.add_row(*(shown(cell) for cell in cells))
            Console().print(table)
        told = {**figures, "load_average": round(os.getloadavg()[0], 2), "cores": os.cpu_count()}
        print(json.dumps({key: rounded(value) for key, value in told.items()}))
        return 0


def shown(value: Any) -> str:
    """A cell as text."""
    return (
        f"{value:,.3g}"
        if isinstance(value, float) and abs(value) < 100
        else (f"{value:,.0f}" if isinstance(value, float) else str(value))
    )


def rounded(value: Any) -> Any:
    """Floats to four digits, also inside mappings and lists."""
    if isinstance(value, float):
        return float(f"{value:.4g}")
    if isinstance(value, dict):
        return {key: rounded(item) for key, item in value.items()}
    return [rounded(item) for item in value] if isinstance(value, list) else value


def median(values: Sequence[float]) -> float:
    """The median."""
    return statistics.median(values)
