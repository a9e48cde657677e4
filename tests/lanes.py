"""Runs all tests in two lanes side by side and shows how far they are: what `./gsdm test` does without arguments.

The lane ``grid`` has the tests that start Ray, Spark or Airflow; those wait most of the time. The lane ``rest`` has all
others; those compute. Each lane is one pytest process, so what tests share (one Ray, one Spark, one coordinator) is
started once. `tests/conftest.py` says which lane a test belongs to, and reports each finished test to this program.

``tests/seconds.json`` holds what each file took when somebody last ran ``./gsdm test --record-times``: it makes the
estimate of the time that is left.
"""

from __future__ import annotations

import argparse
import json
import os
import signal
import subprocess
import sys
import tempfile
import time
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path

LANES = ("grid", "rest")
ROOT = Path(__file__).resolve().parent.parent
SECONDS = ROOT / "tests" / "seconds.json"
LINE_S = 30.0
"""How often a run that is no terminal's prints where it is."""
NO_TESTS = 5
"""How pytest ends when nothing was left to run."""


@dataclass
class Lane:
    """One pytest process: its output goes to a file, what it reports to another."""

    name: str
    folder: Path
    options: list[str]
    files: Counter[str] = field(default_factory=Counter)
    done: Counter[str] = field(default_factory=Counter)
    outcomes: Counter[str] = field(default_factory=Counter)
    seconds: Counter[str] = field(default_factory=Counter)
    durations: list[tuple[float, str]] = field(default_factory=list)
    at: str = "starting"
    code: int | None = None

    def __post_init__(self) -> None:
        self.log = self.folder / f"{self.name}.log"
        self.report = self.folder / f"{self.name}.jsonl"
        self.report.touch()
        command = [sys.executable, "-m", "pytest", "tests", f"--lane={self.name}", f"--lane-report={self.report}"]
        environment = {**os.environ, "COLUMNS": "120"}
        with self.log.open("wb") as log:
            self.process = subprocess.Popen(
                [*command, *self.options], cwd=ROOT, stdout=log, stderr=log, stdin=subprocess.DEVNULL, env=environment
            )
        self._reader = self.report.open()
        self._rest = ""

    def poll(self) -> bool:
        """Take what was reported since; says whether the lane still runs."""
        self.code = self.process.poll()
        lines = (self._rest + self._reader.read()).split("\n")
        self._rest = lines.pop()
        for line in lines:
            self._take(json.loads(line))
        return self.code is None

    def _take(self, event: dict[str, object]) -> None:
        if "files" in event:
            self.files = Counter(event["files"])
        elif "begins" in event:
            self.at = str(event["begins"])
        else:
            path, seconds = str(event["test"]).partition("::")[0], float(str(event["seconds"]))
            self.done[path] += 1
            self.seconds[path] += seconds
            self.outcomes[str(event["outcome"])] += 1
            self.durations.append((seconds, str(event["test"])))

    def left_s(self, expected: dict[str, float]) -> float:
        """Seconds that its tests will take from now on, as far as their files were timed before."""
        return sum(
            expected.get(path, 0.0) * (1 - min(self.done[path] / count, 1.0)) for path, count in self.files.items()
        )

    def line(self) -> str:
        """Where it is."""
        state = self.at.removeprefix("tests/").partition("::")[0] if self.code is None else "done"
        failed = self.outcomes["failed"] + self.outcomes["error"]
        trouble = f", {failed} failed" if failed else ""
        return f"{self.name}: {sum(self.done.values())}/{sum(self.files.values()) or '?'}{trouble} ({state})"


def main(arguments: list[str]) -> int:
    """Run the lanes; 0 if every test passed."""
    parser = argparse.ArgumentParser("gsdm test", description="Runs all tests in two lanes.")
    parser.add_argument("--long", action="store_true", help="run the long repetitions too")
    parser.add_argument("--in-turn", action="store_true", help="run one lane after the other: slower, and undisturbed")
    parser.add_argument("-k", dest="expression", help="run only the tests whose names match, as pytest does")
    parser.add_argument("--record-times", action="store_true", help="write what each file took to tests/seconds.json")
    options = parser.parse_args(arguments)
    expected = json.loads(SECONDS.read_text()) if SECONDS.exists() else {}
    pytest_options = ["--long"] * options.long + (["-k", options.expression] if options.expression else [])
    began_s = time.monotonic()
    with tempfile.TemporaryDirectory(prefix="gsdm-test-") as folder:
        lanes: list[Lane] = []
        try:
            for together in [[name] for name in LANES] if options.in_turn else [LANES]:
                lanes += [Lane(name, Path(folder), pytest_options) for name in together]
                _follow(lanes, expected, began_s)
        except KeyboardInterrupt:
            _interrupt(lanes)
            return 130
        for lane in lanes:
            if lane.code not in (0, NO_TESTS):
                print(f"\n== lane {lane.name}\n{lane.log.read_text()}")
    _summary(lanes, time.monotonic() - began_s)
    if options.record_times:
        seconds = sum((lane.seconds for lane in lanes), Counter())
        rounded = {path: round(took, 1) for path, took in sorted(seconds.items())}
        SECONDS.write_text(json.dumps(rounded, indent=0) + "\n")
    return 1 if any(lane.code not in (0, NO_TESTS) for lane in lanes) else 0


def _follow(lanes: list[Lane], expected: dict[str, float], began_s: float) -> None:
    """Show where the lanes are until all have ended."""
    terminal, shown_s = sys.stdout.isatty(), 0.0
    while True:
        running = [lane for lane in lanes if lane.poll()]
        if not running:
            break
        now_s = time.monotonic()
        if now_s - shown_s > (1.0 if terminal else LINE_S):
            shown_s = now_s
            left_s = max(lane.left_s(expected) for lane in running)
            where = "  ".join(lane.line() for lane in lanes)
            _show(f"{_minutes(now_s - began_s)}  {where}  about {_minutes(left_s)} left", terminal)
        time.sleep(0.2)
    if terminal:
        _show("", terminal)


def _show(text: str, terminal: bool) -> None:
    """One line: over the one before on a terminal, a new one elsewhere."""
    if terminal:
        print(f"\r\033[K{text[: os.get_terminal_size().columns - 1]}", end="", flush=True)
    else:
        print(text, flush=True)


def _interrupt(lanes: list[Lane]) -> None:
    """Let pytest end its fixtures, as a person's Ctrl-C would."""
    for lane in lanes:
        if lane.process.poll() is None:
            lane.process.send_signal(signal.SIGINT)
    for lane in lanes:
        lane.process.wait()


def _summary(lanes: list[Lane], took_s: float) -> None:
    slowest = sorted((duration for lane in lanes for duration in lane.durations), reverse=True)[:10]
    print("\nslowest tests:")
    for seconds, test in slowest:
        print(f"  {seconds:6.1f} s  {test}")
    for lane in lanes:
        print(f"lane {lane.name}: {sum(lane.done.values())} tests in {_minutes(sum(lane.seconds.values()))}")
    print(f"all tests took {_minutes(took_s)}")
    outcomes = sum((lane.outcomes for lane in lanes), Counter())
    crashed = sum(
        1 for lane in lanes if lane.code not in (0, NO_TESTS) and not lane.outcomes["failed"] + lane.outcomes["error"]
    )
    failed = outcomes["failed"] + outcomes["error"] + crashed
    print(f"{outcomes['passed']} passed, {failed} failed, {outcomes['skipped'] + outcomes['xfailed']} skipped")


def _minutes(seconds: float) -> str:
    return f"{int(seconds) // 60}:{int(seconds) % 60:02d}"


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
