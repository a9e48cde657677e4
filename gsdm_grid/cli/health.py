"""``gsdm doctor``: whether this machine has what the system needs, and how to mend what it lacks."""

from __future__ import annotations

import importlib
import os
import re
import shutil
import socket
import subprocess
import sys
from collections.abc import Callable, Mapping
from contextlib import closing
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Annotated, Literal

import typer

from gsdm_grid.cli.commands import HERE, AsJson, Secret, ServerUrl, app, print_json

Condition = Literal["ok", "warning", "missing"]
MARKS: Mapping[Condition, tuple[str, str]] = {"ok": ("✓", "green"), "warning": ("!", "yellow"), "missing": ("✗", "red")}
GIB = 1 << 30
LEAST_JAVA = 17
LEAST_BYTES = {"disk": 2 * GIB, "shared memory": GIB, "memory": 2 * GIB}


@dataclass(frozen=True)
class Finding:
    """One thing that was looked at, and what to do about it. Immutable."""

    name: str
    verdict: Condition
    found: str
    advice: str = ""


@app.command(rich_help_panel=HERE)
def doctor(
    home: Annotated[
        Path | None, typer.Option("--home", envvar="GSDM_HOME", help="The coordinator's folder; ~/.gsdm.")
    ] = None,
    port: Annotated[int, typer.Option(min=1, max=65535, help="Port that a coordinator is to listen on.")] = 8642,
    server: ServerUrl = None,
    token: Secret = None,
    as_json: AsJson = False,
) -> None:
    """Check what the system needs here, and say how to mend what is missing."""
    from gsdm_grid.client import default_home

    home = home or default_home()
    coordinator = check_coordinator(server, token, home)
    checks: list[Callable[[], Finding]] = [
        check_python,
        lambda: check_java(os.environ),
        lambda: check_import("Ray", "ray"),
        lambda: check_import("Spark", "pyspark"),
        lambda: check_port(port, coordinator.verdict == "ok"),
        lambda: check_room("disk", home),
        lambda: check_room("shared memory", Path("/dev/shm")),
        check_memory,
        lambda: coordinator,
    ]
    found = [check() for check in checks]
    if as_json:
        print_json([asdict(one) for one in found])
    else:
        for one in found:
            mark, color = MARKS[one.verdict]
            typer.echo(f"{typer.style(mark, fg=color)} {one.name:<14} {one.found}")
            if one.advice:
                typer.echo(f"  {'':<14} {one.advice}")
    if any(one.verdict == "missing" for one in found):
        raise typer.Exit(1)


def check_python(version: tuple[int, ...] = sys.version_info[:3]) -> Finding:
    """Python 3.11 or 3.12."""
    told = ".".join(map(str, version))
    if (3, 11) <= version[:2] < (3, 13):
        return Finding("Python", "ok", told)
    return Finding("Python", "missing", told, "install Python 3.11 or 3.12 and start ./gsdm again")


def check_java(environment: Mapping[str, str]) -> Finding:
    """A Java for Spark: ``JAVA_HOME``'s, or the one on the path."""
    advice = "install one (on Debian: apt install openjdk-17-jre-headless) or set JAVA_HOME; only Spark needs it"
    home = environment.get("JAVA_HOME")
    java = str(Path(home) / "bin" / "java") if home else shutil.which("java", path=environment.get("PATH", ""))
    if java is None:
        return Finding("Java", "missing", "there is none", advice)
    try:
        told = subprocess.run([java, "-version"], capture_output=True, text=True, timeout=30, check=False)
    except (OSError, subprocess.TimeoutExpired) as error:
        return Finding("Java", "missing", f"{java} does not run: {error}", advice)
    version = java_version(told.stderr + told.stdout)
    if version is None or version < LEAST_JAVA:
        return Finding("Java", "missing", f"{java} is version {version}, {LEAST_JAVA} or later is needed", advice)
    return Finding("Java", "ok", f"{version} ({java})")


def java_version(told: str) -> int | None:
    """The major version that ``java -version`` tells.

    >>> java_version('openjdk version "17.0.9" 2023-10-17'), java_version('java version "1.8.0_392"')
    (17, 8)
    """
    found = re.search(r'version "(?:1\.)?(\d+)', told)
    return int(found[1]) if found else None


def check_import(name: str, package: str) -> Finding:
    """A package that can be imported, and its version."""
    try:
        version = importlib.import_module(package).__version__
    except Exception as error:  # a package may fail in any way: that is what is to be found out
        advice = "start ./gsdm again after removing .venv/gsdm-stamp: it installs what is missing"
        return Finding(name, "missing", f"import fails: {type(error).__name__}: {error}", advice)
    return Finding(name, "ok", str(version))


def check_port(port: int, serving: bool) -> Finding:
    """Whether a coordinator could listen."""
    with closing(socket.socket()) as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind(("127.0.0.1", port))
        except OSError as error:
            if serving:
                return Finding("port", "ok", f"{port} is taken, and a coordinator answers")
            advice = "find out by whom (ss -ltnp), or serve elsewhere: gsdm serve --port …"
            return Finding("port", "warning", f"{port} is taken: {error.strerror}", advice)
    return Finding("port", "ok", f"{port} is free")


def check_room(name: str, folder: Path) -> Finding:
    """Space where a folder is, or will be; and whether it can be written to."""
    there = next((one for one in (folder, *folder.parents) if one.exists()), Path("/"))
    free = shutil.disk_usage(there).free
    told = f"{free / GIB:.1f} GiB free in {folder}"
    if not os.access(there, os.W_OK):
        return Finding(name, "missing", f"{there} cannot be written to", "choose another folder with GSDM_HOME")
    if free < LEAST_BYTES[name]:
        advice = {
            "disk": "make room, or choose another folder with GSDM_HOME",
            "shared memory": "give it more (docker run --shm-size=4g); without, windows go through sockets",
        }[name]
        return Finding(name, "warning", told, advice)
    return Finding(name, "ok", told)


def check_memory(available: int | None = None) -> Finding:
    """Memory that is free for working nodes."""
    import psutil

    free = psutil.virtual_memory().available if available is None else available
    told = f"{free / GIB:.1f} GiB available, {os.cpu_count()} processors"
    if free < LEAST_BYTES["memory"]:
        advice = "end something else: Ray and Spark need about 2 GiB; `--placement processes` does with less"
        return Finding("memory", "warning", told, advice)
    return Finding("memory", "ok", told)


def check_coordinator(server: str | None, token: str | None, home: Path) -> Finding:
    """Whether a coordinator answers, and takes the token."""
    from gsdm_grid.client import ApiProblem, Client, NoCoordinator, RetryPolicy, resolve

    where = resolve(server, token, home)
    try:
        with Client(where.url, where.token, retries=RetryPolicy(attempts=1)) as client:
            count = sum(1 for _ in client.queries())
    except NoCoordinator as error:
        return Finding("coordinator", "warning", f"none answers at {where.url}", "start one: gsdm serve" + _why(error))
    except ApiProblem as problem:
        advice = "name a token with --token or GSDM_TOKEN; an admin makes one: gsdm token create NAME"
        return Finding("coordinator", "missing", f"{where.url}: {problem}", advice if problem.status == 401 else "")
    return Finding("coordinator", "ok", f"{where.url}, {count} {'query' if count == 1 else 'queries'}")


def _why(error: Exception) -> str:
    return f" ({error.args[1]})" if error.args[1] else ""
