"""Requirements of bundles, with a real pip that gets wheels from a folder only."""

import importlib.util
import io
import shutil
import sys
import zipfile

import numpy as np
import pytest

from api.errors import Problem
from api.registry import packages as api_packages
from api.registry.bundles import Bundles
from api.registry.packages import Packages
from api.store import Store
from gsdm_grid.functions import FunctionRegistry, PackageSets, packages, reference, resolve

NAME = "gsdm_test_numerals"
BUNDLE = f"import {NAME}\nfrom gsdm_grid.functions import sqf\n@sqf\ndef version(s):\n    return {NAME}.VERSION\n"
INLINE = f'# /// script\n# dependencies = ["{NAME}{{wanted}}"]\n# ///\n{BUNDLE}'


@pytest.fixture
def made(tmp_path):
    return Packages(tmp_path / "packages", PackageSets())


@pytest.fixture
def store(tmp_path):
    made = Store(f"sqlite:///{tmp_path / 'gsdm.sqlite'}")
    yield made
    made.close()


@pytest.fixture
def registry():
    return FunctionRegistry()


@pytest.fixture
def bundles(store, tmp_path, registry):
    made = Bundles(store, tmp_path / "bundles", lambda kind, name: None, Packages(tmp_path / "home"), registry)
    yield made
    for bundle in made.list():
        made.remove(bundle["name"])


def refusal(made, *wanted):
    with pytest.raises(Problem) as caught:
        made.install(list(wanted))
    return caught.value


def versions(wheels, *numbers):
    for number in numbers:
        wheels(NAME, number, f"VERSION = '{number}'\n")


def test_what_is_missing_is_installed_with_what_it_requires(made, wheels, tmp_path):
    wheels(NAME, "1.0", "", requires=["gsdm_test_inner>=2", "numpy"])
    wheels("gsdm_test_inner", "2.1", "")
    done = made.install([NAME])
    assert done.distributions == ("gsdm-test-inner==2.1", "gsdm-test-numerals==1.0")
    folder = tmp_path / "packages" / done.digest
    assert {f"{NAME}.py", "gsdm_test_inner.py"} <= {path.name for path in folder.iterdir()}
    assert not (folder / "numpy").exists()
    assert sorted(path.name for path in folder.parent.iterdir()) == [done.digest, f"{done.digest}.zip"]


def test_what_the_environment_has_needs_no_set(made, wheels):
    done = made.install(["numpy", f"pytest>={pytest.__version__.partition('.')[0]}"])
    assert (done.distributions, done.digest) == ((), None)


def test_the_same_packages_are_the_same_set(made, wheels):
    versions(wheels, "1.0")
    assert made.install([NAME]).digest == made.install([f"{NAME}==1.0"]).digest


def test_a_package_that_nobody_has_is_named(made, wheels):
    problem = refusal(made, "gsdm-test-nowhere>=3")
    assert problem.kind == "unmet-requirement"
    assert problem.extras["requirement"] == "gsdm-test-nowhere>=3"
    assert "'gsdm-test-nowhere>=3' cannot be met: there is none" in problem.detail


def test_a_version_that_nobody_has_is_told_with_those_there_are(made, wheels):
    versions(wheels, "1.0", "1.1")
    assert "the newest are 1.0, 1.1" in refusal(made, f"{NAME}==7").detail


def test_a_package_of_the_environment_cannot_be_replaced(made, wheels):
    problem = refusal(made, "numpy<2")
    assert f"the bundle requires numpy<2; the grid's environment has numpy=={np.__version__}" in problem.detail
    assert problem.extras["requirement"] == "numpy<2"
    wheels(NAME, "1.0", "", requires=["numpy<2"])
    assert f"1.0 depends on numpy<2; the grid's environment has numpy=={np.__version__}" in refusal(made, NAME).detail


def test_packages_that_must_be_built_are_refused(made, wheels, tmp_path):
    with zipfile.ZipFile(tmp_path / "wheels" / f"{NAME}-1.0.zip", "w") as source:
        source.writestr(f"{NAME}-1.0/setup.py", "raise SystemExit('this must not run')")
    assert "cannot be met" in refusal(made, NAME).detail


def test_pip_has_not_forever(tmp_path, wheels):
    versions(wheels, "1.0")
    problem = refusal(Packages(tmp_path / "packages", PackageSets(), limit_s=0.01), NAME)
    assert f"pip did not come to an end in time over {NAME}" in problem.detail
    assert list((tmp_path / "packages").iterdir()) == []


def test_packages_may_not_be_too_large(made, wheels, monkeypatch):
    monkeypatch.setattr(api_packages, "MAX_BYTES", 1 << 20)
    wheels(NAME, "1.0", "", data=bytes(2 << 20))
    assert "have 2 MiB of files; at most 1 MiB" in refusal(made, NAME).detail


def test_without_pip_it_is_said(made, wheels, monkeypatch):
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
    problem = refusal(made, NAME)
    assert problem.kind == "no-resources"
    assert "has no pip" in problem.detail


def test_versions_of_a_bundle_keep_their_versions_of_a_package(bundles, registry, wheels):
    versions(wheels, "1.0", "2.0")
    first, _ = bundles.upload("b", "text/x-python", INLINE.format(wanted="==1.0").encode(), "t")
    compiled = reference(registry.get("b.version"))
    second, _ = bundles.upload("b", "text/x-python", INLINE.format(wanted=">1").encode(), "t")
    assert [one["packages"] for one in (first, second)] == [["gsdm-test-numerals==1.0"], ["gsdm-test-numerals==2.0"]]
    assert second["requirements"] == [f"{NAME}>1"]
    assert resolve(compiled)(None) == "1.0"
    assert resolve(reference(registry.get("b.version")))(None) == registry.get("b.version")(None) == "2.0"
    assert registry.get("b@1.version")(None) == "1.0"
    with registry.pinned({"b.version": compiled["pinned"]}):
        assert registry.get("b.version")(None) == "1.0"
        assert registry.get("b.version").name == "b.version"
    assert NAME not in sys.modules


def test_a_package_with_requirements_txt_is_a_bundle_too(bundles, registry, wheels):
    versions(wheels, "1.0")
    content = io.BytesIO()
    with zipfile.ZipFile(content, "w") as archive:
        archive.writestr("__init__.py", BUNDLE)
        archive.writestr("requirements.txt", f"{NAME}  # numerals\n")
    shown, _ = bundles.upload("b", "application/zip", content.getvalue(), "t")
    assert shown["packages"] == ["gsdm-test-numerals==1.0"]
    assert registry.get("b.version")(None) == "1.0"


def test_sets_are_found_again_after_a_restart_or_installed_again(bundles, store, tmp_path, wheels):
    versions(wheels, "1.0")
    bundles.upload("b", "text/x-python", INLINE.format(wanted="").encode(), "t")
    versions(wheels, "2.0")
    for gone in (False, True):
        digest = next(path.stem for path in (tmp_path / "home").glob("*.zip"))
        packages.remove(digest)
        if gone:
            shutil.rmtree(tmp_path / "home")
        registry = FunctionRegistry()
        Bundles(store, tmp_path / "bundles", lambda kind, name: None, Packages(tmp_path / "home"), registry).load_all()
        assert registry.get("b.version")(None) == "1.0"


def test_a_set_that_cannot_be_installed_again_is_shown(bundles, store, tmp_path, wheels):
    versions(wheels, "1.0")
    bundles.upload("b", "text/x-python", INLINE.format(wanted="").encode(), "t")
    packages.remove(next(path.stem for path in (tmp_path / "home").glob("*.zip")))
    shutil.rmtree(tmp_path / "home")
    wheels(NAME, "1.0", "VERSION = 'not what it was'\n")
    again = Bundles(
        store, tmp_path / "bundles", lambda kind, name: None, Packages(tmp_path / "home"), FunctionRegistry()
    )
    again.load_all()
    assert "are not what they were: upload the bundle again" in again.get("b")["error"]
    assert list((tmp_path / "home").iterdir()) == []


def test_a_set_goes_with_the_last_bundle_that_needs_it(bundles, tmp_path, wheels):
    versions(wheels, "1.0")
    for name in ("a", "b"):
        bundles.upload(name, "text/x-python", INLINE.format(wanted="").encode(), "t")
    digest = next(path.stem for path in (tmp_path / "home").glob("*.zip"))
    bundles.remove("a")
    assert packages.has(digest)
    bundles.remove("b")
    assert not packages.has(digest)
    assert list((tmp_path / "home").iterdir()) == []


def test_code_that_fails_leaves_no_packages_behind(bundles, tmp_path, wheels):
    versions(wheels, "1.0")
    with pytest.raises(Problem, match="ZeroDivisionError"):
        bundles.upload("b", "text/x-python", (INLINE.format(wanted="") + "1 / 0\n").encode(), "t")
    assert list((tmp_path / "home").iterdir()) == []
    assert NAME not in sys.modules
