import os

from gsdm_grid.cli.health import check_import, check_memory, check_python, check_room


def test_python_must_be_one_of_two():
    assert [check_python(v).verdict for v in ((3, 10, 1), (3, 11, 0), (3, 12, 9), (3, 13, 0))] == [
        "missing",
        "ok",
        "ok",
        "missing",
    ]


def test_packages_are_imported():
    assert check_import("NumPy", "numpy").verdict == "ok"
    assert "ModuleNotFoundError" in check_import("Nothing", "nothing_like_it").found


def test_room_is_looked_for_where_the_folder_will_be(tmp_path, monkeypatch):
    assert check_room("disk", tmp_path / "not" / "yet").verdict == "ok"
    monkeypatch.setattr("gsdm_grid.cli.health.LEAST_BYTES", {"disk": 1 << 60, "shared memory": 1 << 60})
    assert "make room" in check_room("disk", tmp_path).advice
    assert "--shm-size" in check_room("shared memory", tmp_path).advice


def test_a_folder_must_be_writable(tmp_path, monkeypatch):
    monkeypatch.setattr(os, "access", lambda path, mode: False)
    assert check_room("disk", tmp_path / "new").found == f"{tmp_path} cannot be written to"


def test_little_memory_is_a_warning():
    assert check_memory(1 << 30).verdict == "warning"
    assert check_memory(8 << 30).verdict == "ok"
