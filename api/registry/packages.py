"""Packages for uploaded functions: what a bundle requires is installed once, here, and kept as an archive.

pip decides what is missing in the environment that the whole grid shares, and puts that into a folder; what the
environment has already cannot be replaced. Only wheels are taken, so that nothing is built: pip runs no code of theirs.
How the archive reaches the working nodes is the business of `gsdm_grid.engine.package_staging`.
"""

from __future__ import annotations

import importlib.util
import json
import logging
import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from importlib import metadata
from pathlib import Path
from typing import Any

from packaging.utils import canonicalize_name
from packaging.version import InvalidVersion, Version

from api.errors import Problem
from gsdm_grid.functions import PackageSet, PackageSets, pack, packages, unpack

INSTALL_S = 300.0
"""How long pip may take for one bundle."""
MAX_BYTES = 1 << 30
"""Of all files that a bundle's requirements install."""
_WORK = ".work-"
_log = logging.getLogger("gsdm.packages")


@dataclass(frozen=True)
class Installed:
    """What the requirements of one version of a bundle became; stored with it. Immutable.

    The digest is None if the environment has everything.
    """

    requirements: tuple[str, ...]
    distributions: tuple[str, ...]
    digest: str | None

    def to_json(self) -> dict[str, Any]:
        """As plain JSON."""
        return {**vars(self), "requirements": list(self.requirements), "distributions": list(self.distributions)}

    @staticmethod
    def from_json(data: Mapping[str, Any]) -> Installed:
        """Inverse of `to_json`."""
        return Installed(tuple(data["requirements"]), tuple(data["distributions"]), data["digest"])


class Packages:
    """The sets of packages of one coordinator, in a folder. Thread-safe; all methods block, `install` for long."""

    def __init__(self, folder: Path, known: PackageSets = packages, limit_s: float = INSTALL_S) -> None:
        self._folder = folder
        self._known = known
        self._limit_s = limit_s
        self._held: Counter[str] = Counter()
        self._installing = threading.Lock()
        self._lock = threading.Lock()
        for unfinished in folder.glob(f"{_WORK}*"):  # a coordinator was killed meanwhile
            shutil.rmtree(unfinished, ignore_errors=True)

    def install(self, requirements: Sequence[str]) -> Installed:
        """Find out what is missing in the environment, install that, and keep it: at least until `release`."""
        with self._installing, self._workplace() as place:
            work, deadline_s = Path(place), time.monotonic() + self._limit_s
            missing = self._missing(work, requirements, deadline_s)
            digest = self._installed(work, missing, deadline_s) if missing else None
        _log.info("packages installed", extra={"requirements": list(requirements), "packages": missing})
        return Installed(tuple(requirements), tuple(missing), digest)

    def restore(self, wanted: Installed) -> None:
        """Make a set known again after a restart; installs the same versions if its archive is gone."""
        if wanted.digest is None or self._known.has(wanted.digest):
            return
        with self._installing, self._workplace() as place:
            if self._archive(wanted.digest).is_file():
                self._keep(wanted.digest)
                return
            got = self._installed(Path(place), wanted.distributions, time.monotonic() + self._limit_s)
            self.release(got)
            if got != wanted.digest:
                self.remove(got)
                named = ", ".join(wanted.distributions)
                raise Problem("unmet-requirement", f"{named} are not what they were: upload the bundle again")

    def release(self, digest: str) -> None:
        """Whoever installed a set has stored that it is needed, or does not need it."""
        with self._lock:
            self._held[digest] -= 1

    def remove(self, digest: str) -> None:
        """Forget a set that no stored bundle needs, unless somebody has just installed it again."""
        with self._lock:
            if self._held[digest] > 0:
                return
            self._known.remove(digest)
            self._archive(digest).unlink(missing_ok=True)
            shutil.rmtree(self._folder / digest, ignore_errors=True)

    # -- inside -------------------------------------------------------------------------------------------------------

    def _workplace(self) -> tempfile.TemporaryDirectory[str]:
        self._folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        return tempfile.TemporaryDirectory(dir=self._folder, prefix=_WORK)

    def _archive(self, digest: str) -> Path:
        return self._folder / f"{digest}.zip"

    def _missing(self, work: Path, requirements: Sequence[str], deadline_s: float) -> list[str]:
        """What is missing in the environment, as ``name==version``, by name."""
        report = work / "report.json"
        wanted = _written(work / "requirements.txt", requirements)
        fixed = _written(work / "environment.txt", self._environment())
        options = ["--dry-run", "--report", str(report), "-r", str(wanted), "-c", str(fixed)]
        _pip(options, requirements, deadline_s)
        found = [one["metadata"] for one in json.loads(report.read_text())["install"]]
        return sorted(f"{canonicalize_name(one['name'])}=={one['version']}" for one in found)

    def _environment(self) -> list[str]:
        """Everything installed here, fixed to its version: the environment that all machines of the grid have."""
        found: dict[str, str] = {}
        ours = [entry for entry in sys.path if not Path(entry).is_relative_to(self._folder)]
        for one in metadata.distributions(path=ours):
            try:
                found.setdefault(canonicalize_name(one.name), str(Version(one.version)))
            except (InvalidVersion, AttributeError, TypeError):
                continue  # a damaged installation is nothing to depend on
        return sorted(f"{name}=={version}" for name, version in found.items())

    def _installed(self, work: Path, distributions: Sequence[str], deadline_s: float) -> str:
        """Install exactly these, and keep them; gives the digest."""
        target = work / "packages"
        wanted = _written(work / "resolved.txt", distributions)
        _pip(["--no-deps", "--no-compile", "--target", str(target), "-r", str(wanted)], distributions, deadline_s)
        shutil.rmtree(target / "bin", ignore_errors=True)  # commands name this machine's interpreter
        if (size := sum(file.stat().st_size for file in target.rglob("*") if file.is_file())) > MAX_BYTES:
            have = f"{', '.join(distributions)} have {size >> 20} MiB of files"
            raise Problem("unmet-requirement", f"{have}; at most {MAX_BYTES >> 20} MiB are taken")
        packed = work / "packages.zip"
        digest = pack(target, packed)
        with self._lock:
            self._held[digest] += 1
            packed.rename(self._archive(digest))
            self._keep(digest)
        return digest

    def _keep(self, digest: str) -> None:
        folder = self._folder / digest
        if not folder.is_dir():
            unpack(self._archive(digest), folder)
        self._known.add(PackageSet(digest, folder, self._archive(digest)))


def _written(path: Path, lines: Sequence[str]) -> Path:
    path.write_text("\n".join(lines) + "\n")
    return path


def _pip(options: Sequence[str], wanted: Sequence[str], deadline_s: float) -> None:
    """Run ``pip install``; what it cannot do becomes a problem that names the requirement."""
    if importlib.util.find_spec("pip") is None:
        raise Problem("no-resources", "the coordinator's environment has no pip, so bundles cannot have requirements")
    command = [sys.executable, "-m", "pip", "install", "--only-binary", ":all:", "--no-input", "--progress-bar", "off"]
    settings = {**os.environ, "PIP_DISABLE_PIP_VERSION_CHECK": "1", "PIP_NO_COLOR": "1"}
    process = subprocess.Popen(
        [*command, *options],
        env=settings,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        start_new_session=True,
    )
    try:
        told, _ = process.communicate(timeout=max(deadline_s - time.monotonic(), 0.1))
    except subprocess.TimeoutExpired:
        os.killpg(process.pid, signal.SIGKILL)
        process.communicate()
        raise Problem("unmet-requirement", f"pip did not come to an end in time over {', '.join(wanted)}") from None
    if process.returncode != 0:
        _log.warning("pip failed", extra={"requirements": list(wanted), "told": told[-4000:]})
        raise _problem(told, wanted)


def _problem(told: str, wanted: Sequence[str]) -> Problem:
    """pip's complaint in a sentence, with the requirement that it is about."""
    lines = [re.sub(r"^ERROR: ", "", line).strip() for line in told.splitlines() if not line.startswith("WARNING")]
    missing = re.search(r"satisfies the requirement (\S+)(.*?) \(from versions: (.*?)\)", told)
    if missing is not None:
        name, needed_by, versions = missing.groups()
        newest = ", ".join(versions.split(", ")[-5:])
        there = "there is none that can be had" if versions == "none" else f"the newest are {newest}"
        told_why = f"requirement {name!r}{needed_by} cannot be met: {there} (as a wheel for this Python and platform)"
        return Problem("unmet-requirement", told_why, requirement=name)
    if "conflict is caused by" in told:
        return _conflict(lines[next(number for number, line in enumerate(lines) if "caused by" in line) + 1 :], wanted)
    reason = next((line for line in reversed(lines) if line), "it said nothing")
    return Problem("unmet-requirement", f"pip cannot install {', '.join(wanted)}: {reason[:500]}")


def _conflict(lines: Sequence[str], wanted: Sequence[str]) -> Problem:
    """What pip tells about requirements that contradict each other, or the environment."""
    asked, fixed = "The user requested ", "The user requested (constraint) "
    causes = [line for line in lines if line.startswith(asked) or re.match(r"\S+ \S+ depends on ", line)]
    told = [
        f"the grid's environment has {one.removeprefix(fixed)}"
        if one.startswith(fixed)
        else re.sub(f"^{asked}", "the bundle requires ", one)
        for one in causes
    ]
    own = [one.removeprefix(asked) for one in causes if one.startswith(asked) and not one.startswith(fixed)]
    detail = f"requirements contradict each other: {'; '.join(told)}"
    return Problem("unmet-requirement", detail, requirement=own[0] if own else ", ".join(wanted))
