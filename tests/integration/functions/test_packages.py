"""Threads that import different versions of a package."""

import sys
import threading

import pytest

from gsdm_grid.functions import PackageSet, PackageSets

MODULE = "gsdm_test_dependency"


@pytest.fixture
def make_set(tmp_path):
    """Make a set of packages from module sources."""
    made = []

    def make(digest, version="1.0", name=MODULE, **modules):
        folder = tmp_path / digest
        about = folder / f"{name}-{version}.dist-info"
        about.mkdir(parents=True)
        (about / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n")
        for module, source in modules.items() or {name: f"VERSION = '{version}'\n"}.items():
            path = folder / f"{module.replace('.', '/')}.py"
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(source)
        made.append(PackageSet(digest, folder))
        return made[-1]

    path, modules = list(sys.path), set(sys.modules)
    yield make
    sys.path[:] = path
    for name in set(sys.modules) - modules:
        if any(one.holds(sys.modules[name]) for one in made):
            del sys.modules[name]


@pytest.fixture
def two(make_set):
    """Sets with two versions of one package."""
    sets = PackageSets()
    for digest, version in (("one", "1.0"), ("two", "2.0")):
        sets.add(make_set(digest, version))
    return sets


def version():
    """The version that is imported now."""
    import importlib

    return importlib.import_module(MODULE).VERSION


def test_threads_that_import_apart_wait_for_each_other(two):
    seen, wrong = [], []

    def use(digest, expected):
        for _ in range(50):
            with two.importing(digest):
                (seen if version() == expected else wrong).append(digest)

    users = [threading.Thread(target=use, args=one) for one in (("one", "1.0"), ("two", "2.0")) * 2]
    for user in users:
        user.start()
    for user in users:
        user.join()
    assert (len(seen), wrong) == (200, [])
