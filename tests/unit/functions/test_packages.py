import sys

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gsdm_grid.errors import QueryError
from gsdm_grid.functions import PackageSet, PackageSets, StreamFunction, reference, resolve
from gsdm_grid.functions import packages as known
from gsdm_grid.functions.packages import digest_of, pack, unpack

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


def test_two_versions_of_a_package_are_imported_side_by_side(two):
    with two.importing("one"):
        assert version() == "1.0"
        first = sys.modules[MODULE]
    assert MODULE not in sys.modules
    with two.importing("two"):
        assert version() == "2.0"
    with two.importing("one"):
        assert sys.modules[MODULE] is first


def test_a_set_within_another_is_seen_alone(two):
    with two.importing("one"):
        assert version() == "1.0"
        with two.importing("two"):
            assert version() == "2.0"
            with two.importing("two"):
                assert version() == "2.0"
        assert version() == "1.0"
    assert MODULE not in sys.modules


def test_nothing_is_left_in_sight_if_an_import_fails(two, make_set):
    two.add(make_set("broken", name="gsdm_test_broken", gsdm_test_broken=f"import {MODULE}x"))
    before = list(sys.path)
    with pytest.raises(ModuleNotFoundError), two.importing("broken"):
        import gsdm_test_broken  # noqa: F401
    assert sys.path == before
    assert "gsdm_test_broken" not in sys.modules


def test_a_package_of_the_environment_is_never_replaced(two, make_set):
    two.add(make_set("shadow", name="json", json="VERSION = 'not ours'"))
    with two.importing("shadow"):
        import json

        assert json.loads("[1]") == [1]


def test_namespaces_that_the_environment_has_too_stay_in_sight(make_set, tmp_path, monkeypatch):
    (tmp_path / "environment" / "gsdm_test_space").mkdir(parents=True)
    (tmp_path / "environment" / "gsdm_test_space" / "ours.py").write_text("X = 1")
    monkeypatch.syspath_prepend(tmp_path / "environment")
    import gsdm_test_space.ours

    sets = PackageSets()
    sets.add(make_set("more", name="more", **{"gsdm_test_space.theirs": "Y = 2"}))
    with sets.importing("more"):
        import gsdm_test_space.theirs

        assert (gsdm_test_space.ours.X, gsdm_test_space.theirs.Y) == (1, 2)
    assert "gsdm_test_space.theirs" not in sys.modules
    assert sys.modules.pop("gsdm_test_space.ours").X == 1
    del sys.modules["gsdm_test_space"]


def test_namespaces_that_lost_their_package_are_left_alone(two, tmp_path, monkeypatch):
    (tmp_path / "environment" / "gsdm_test_outer" / "inner").mkdir(parents=True)
    (tmp_path / "environment" / "gsdm_test_outer" / "__init__.py").touch()
    monkeypatch.syspath_prepend(tmp_path / "environment")
    import gsdm_test_outer.inner  # noqa: F401

    del sys.modules["gsdm_test_outer"]
    with two.importing("one"):
        assert version() == "1.0"
    del sys.modules["gsdm_test_outer.inner"]


def test_what_a_process_adopts_it_can_import_at_any_time(two):
    two.adopt("one")
    two.adopt("one")
    assert version() == "1.0"
    with two.importing("one"):
        assert version() == "1.0"
    assert version() == "1.0"


def test_a_process_does_not_adopt_two_versions_of_one_package(two):
    two.adopt("one")
    with pytest.raises(QueryError, match=rf"this working node would need {MODULE.replace('_', '-')} 1\.0 and .* 2\.0"):
        two.adopt("two")


def test_an_unknown_set_is_named(two):
    with pytest.raises(QueryError, match="the packages nowhere are not here"), two.importing("nowhere"):
        pass


def test_functions_are_pickled_with_the_version_that_they_were_made_with(two):
    for digest in ("one", "two"):
        known.add(two.get(digest))
    references = []
    for digest in ("one", "two"):
        with known.importing(digest):
            import importlib

            module = importlib.import_module(MODULE)
            scope = {"module": module}
            exec("def f(s):\n    return module.VERSION", scope)  # as code of a bundle, which is nowhere installed
            made = StreamFunction(
                "f", "transforming", scope["f"], metadata={"packages": digest, "pinned": f"b@{digest}.f"}
            )
            references.append(reference(made))
    assert [one["packages"] for one in references] == ["one", "two"]
    assert [one["pinned"] for one in references] == ["b@one.f", "b@two.f"]
    assert [resolve(one)(None) for one in references] == ["1.0", "2.0"]
    assert MODULE not in sys.modules
    for digest in ("one", "two"):
        known.remove(digest)


@settings(max_examples=50)
@given(
    st.dictionaries(
        st.from_regex(r"[a-z]{1,5}(/[a-z]{1,5}){0,2}\.(py|so|txt)", fullmatch=True), st.binary(), min_size=1
    )
)
def test_packing_then_unpacking_is_the_identity(tmp_path_factory, files):
    folder = tmp_path_factory.mktemp("packed")
    for order, target in ((list(files), "a"), (list(reversed(files)), "b")):
        for path in order:
            (folder / target / path).parent.mkdir(parents=True, exist_ok=True)
            (folder / target / path).write_bytes(files[path])
    digests = {pack(folder / one, folder / f"{one}.zip") for one in "ab"}
    assert digests == {digest_of(folder / "a.zip")}
    unpack(folder / "a.zip", folder / "c")
    found = {
        str(path.relative_to(folder / "c")): path.read_bytes() for path in (folder / "c").rglob("*") if path.is_file()
    }
    assert found == files
