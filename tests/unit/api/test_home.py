import logging
import stat

import pytest

from api.http.home import protect_home
from api.settings import ServiceSettings
from gsdm_grid.errors import ResourceError


def mode(path):
    return stat.S_IMODE(path.lstat().st_mode)


def test_a_new_home_is_its_accounts_only(tmp_path, caplog):
    home = tmp_path / "a" / "home"
    protect_home(ServiceSettings(home=home))
    assert mode(home) == 0o700
    assert not caplog.records


def test_what_an_older_version_left_open_is_closed_and_said(tmp_path, caplog):
    home, outside = tmp_path / "home", tmp_path / "outside"
    (home / "results" / "q").mkdir(parents=True)
    files = [home / "gsdm.sqlite", home / "gsdm.sqlite-wal", home / "results" / "q" / "log", outside]
    for file in files:
        file.write_text("")
        file.chmod(0o644)
    (home / "link").symlink_to(outside)
    home.chmod(0o755)
    with caplog.at_level(logging.WARNING, "gsdm.home"):
        protect_home(ServiceSettings(home=home))
    assert [mode(file) for file in files] == [0o600, 0o600, 0o600, 0o644]
    assert [mode(folder) for folder in (home, home / "results", home / "results" / "q")] == [0o700] * 3
    assert "others could read" in caplog.text
    caplog.clear()
    protect_home(ServiceSettings(home=home))
    assert not caplog.records


def test_a_database_elsewhere_is_closed_too(tmp_path):
    database = tmp_path / "elsewhere.sqlite"
    database.write_text("")
    database.chmod(0o644)
    protect_home(ServiceSettings(home=tmp_path / "home", database=f"sqlite:///{database}"))
    assert mode(database) == 0o600


@pytest.mark.parametrize("place", ["file", "file/below"])
def test_a_home_that_cannot_be_used_is_named_in_one_sentence(tmp_path, place):
    (tmp_path / "file").write_text("")
    with pytest.raises(ResourceError, match=r"the home folder .*file.* cannot be used \("):
        protect_home(ServiceSettings(home=tmp_path / place))
