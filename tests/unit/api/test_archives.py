import io
import stat
import tracemalloc
import zipfile

import pytest
from hypothesis import given
from hypothesis import strategies as st

from api.errors import Problem
from api.registry.archives import (
    MAX_ENTRIES,
    PYTHON,
    ZIP,
    unpack,
)


def packed(files, compression=zipfile.ZIP_DEFLATED):
    """An archive of the given entries: names or ZipInfos with their contents."""
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", compression) as archive:
        for name, content in files:
            archive.writestr(name, content)
    return buffer.getvalue()


def refusal(content, media_type=ZIP):
    with pytest.raises(Problem) as caught:
        unpack(media_type, content)
    assert caught.value.kind in ("invalid-request", "function-failed")
    return caught.value.detail


def kind_of_answer(media_type, content):
    """What an upload is: files, or which kind of problem."""
    try:
        return "files" if "__init__.py" in unpack(media_type, content) else "no package"
    except Problem as problem:
        return problem.kind


def named(name, mode=None):
    """An entry with exactly this name, as tools that do not care would write it."""
    entry = zipfile.ZipInfo("x")
    entry.filename = name
    if mode is not None:
        entry.external_attr = mode << 16
    return entry


def test_one_module_is_a_package_of_one_file():
    assert unpack(PYTHON, b"x = 1") == {"__init__.py": b"x = 1"}


@pytest.mark.parametrize("folder", ["", "pkg/"])
def test_a_package_lies_at_the_top_or_in_one_folder(folder):
    content = packed(
        [
            (f"{folder}__init__.py", "from .inner import a"),
            (f"{folder}inner/__init__.py", ""),
            (f"{folder}inner/a.py", "x = 1"),
            (f"{folder}README.md", "text"),
            (f"{folder}py.typed", ""),
            (f"{folder}empty/", ""),
        ]
    )
    assert set(unpack(ZIP, content)) == {"__init__.py", "inner/__init__.py", "inner/a.py"}


@pytest.mark.parametrize(
    "name",
    [
        "../evil.py",
        "a/../../evil.py",
        "/etc/evil.py",
        "\\evil.py",
        "a\\..\\evil.py",
        "C:/evil.py",
        "a/../b.py",
        "a.py\0/../../x",
    ],
)
def test_paths_that_lead_out_are_refused(name):
    assert "leads out of the archive" in refusal(packed([("__init__.py", ""), (named(name), "")]))


def test_links_are_refused():
    assert "is a link" in refusal(packed([("__init__.py", ""), (named("l.py", stat.S_IFLNK | 0o777), "/etc/passwd")]))


@pytest.mark.parametrize("name", ["a.so", "lib/b.pyd", "c.DLL", "d.dylib", "e.pyc"])
def test_compiled_code_is_refused(name):
    assert "compiled code" in refusal(packed([("__init__.py", ""), (name, "")]))


@pytest.mark.parametrize(
    ("files", "reason"),
    [
        ([], "must hold __init__.py"),
        ([("a.py", "")], "must hold __init__.py"),
        ([("a/__init__.py", ""), ("b/__init__.py", "")], "must hold __init__.py"),
        ([("a/__init__.py", ""), ("b.py", "")], "must hold __init__.py"),
        ([("__init__.py", ""), ("data.csv", "")], "not a Python source"),
        ([("__init__.py", ""), ("Makefile", "")], "not a Python source"),
        ([("__init__.py", ""), ("a-b.py", "")], "cannot be imported"),
        ([("__init__.py", ""), ("a b/c.py", "")], "cannot be imported"),
        ([("__init__.py", ""), ("a//b.py", "")], "cannot be imported"),
        ([("__init__.py", ""), ("A.py", ""), ("a.py", "")], "twice"),
        ([("__init__.py", "x ="), ("a.py", "")], "SyntaxError"),
        ([("__init__.py", "x = '\0'")], "__init__.py"),
        ([("__init__.py", "def f(s):\n    from . import a\n"), ("a.py", "")], "line 2: a relative import inside"),
        ([(f"a{number}.py", "") for number in range(MAX_ENTRIES + 1)], "entries"),
    ],
)
def test_archives_that_are_no_package_are_refused(files, reason):
    assert reason in refusal(packed(files))


def test_bombs_are_refused():
    assert "times its size" in refusal(packed([("__init__.py", b"#" * (10 << 20))]))
    many = [(f"a{number}.py", b"#" * (1 << 20)) for number in range(64)]
    assert "unpacks to more than" in refusal(packed(many))


def test_an_archive_that_lies_about_sizes_is_refused():
    honest = packed([("__init__.py", b"x = 1\n" * 100)])
    size = (600).to_bytes(4, "little")
    assert honest.count(size) == 2
    refusal(honest.replace(size, (20).to_bytes(4, "little")))


@pytest.mark.parametrize("source", [b"\xff\xfe", b"x = '\xff'", b"(" * 5000, b"-" * 100_000 + b"1", b"\0"])
def test_what_does_not_compile_is_refused(source):
    refusal(source, PYTHON)


@given(st.binary(max_size=300), st.sampled_from([ZIP, PYTHON]))
def test_whatever_comes_is_files_or_a_problem(content, media_type):
    assert kind_of_answer(media_type, content) in ("files", "invalid-request", "function-failed")


@given(st.binary(min_size=1, max_size=8), st.integers(0, 400))
def test_a_damaged_archive_is_files_or_a_problem(damage, at):
    content = bytearray(packed([("pkg/__init__.py", "from . import a\n" * 9), ("pkg/a.py", "x = 1")]))
    content[at : at + len(damage)] = damage
    assert kind_of_answer(ZIP, bytes(content)) in ("files", "invalid-request", "function-failed")


NAMES = st.lists(st.sampled_from(["..", ".", "", "a", "b.py", "__init__.py", "\\", "C:", "~", "é.py"]), min_size=1).map(
    "/".join
)


@pytest.mark.filterwarnings("ignore:Duplicate name")
@given(st.lists(NAMES | st.text(min_size=1, max_size=20), max_size=4))
def test_no_name_leads_out_of_a_folder(names):
    entries = [("__init__.py", "")] + [(named(name), "") for name in names if name.isprintable()]
    try:
        files = unpack(ZIP, packed(entries, zipfile.ZIP_STORED))
    except Problem:
        return
    for path in files:
        assert not path.startswith("/")
        assert not {"..", ".", ""} & set(path.split("/"))
        assert path.endswith(".py")


@pytest.mark.parametrize(
    "files",
    [
        [("__init__.py", ""), ("requirements.txt", "roman")],
        [("pkg/__init__.py", ""), ("pkg/requirements.txt", "roman")],
        [("pkg/__init__.py", ""), ("requirements.txt", "roman")],
    ],
)
def test_requirements_lie_in_the_package_or_beside_it(files):
    assert unpack(ZIP, packed(files)) == {"__init__.py": b"", "requirements.txt": b"roman"}


def test_requirements_deeper_in_the_package_are_texts_like_others():
    assert "requirements.txt" not in unpack(ZIP, packed([("__init__.py", ""), ("docs/requirements.txt", "sphinx")]))


def test_requirements_in_two_places_are_refused():
    files = [("pkg/__init__.py", ""), ("pkg/requirements.txt", "a"), ("requirements.txt", "b")]
    assert "two requirements.txt" in refusal(packed(files))


def lying(size, said):
    """An archive with one file of ``size`` zero bytes whose directory says that it is much smaller."""
    packed_files = packed([("__init__.py", ""), ("zeros.py", b"#" * size)])
    return packed_files.replace(size.to_bytes(4, "little"), said.to_bytes(4, "little"))


def test_a_directory_that_lies_about_sizes_costs_no_memory():
    content = lying(300 << 20, 100)
    tracemalloc.start()
    try:
        assert "zeros.py" in refusal(content)
        assert tracemalloc.get_traced_memory()[1] < 8 << 20
    finally:
        tracemalloc.stop()


@pytest.mark.parametrize("method", [zipfile.ZIP_BZIP2, zipfile.ZIP_LZMA])
def test_what_cannot_be_unpacked_a_piece_at_a_time_is_refused(method):
    assert "only deflate" in refusal(packed([("__init__.py", "x = 1")], method))
