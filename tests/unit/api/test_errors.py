import errno
import sqlite3

import pytest
import sqlalchemy as sa

from api.errors import document, problem_of
from api.store import Store, types
from gsdm_grid.errors import ResourceError


@pytest.mark.parametrize("number", [errno.ENOSPC, errno.EDQUOT, errno.EFBIG])
def test_a_disk_that_is_full_is_not_our_bug(number):
    problem = problem_of(OSError(number, "no room"))
    assert (problem.kind, document(problem)["status"]) == ("storage-full", 507)


def test_what_a_full_disk_caused_is_not_our_bug():
    error = RuntimeError("cannot write")
    error.__cause__ = OSError(errno.ENOSPC, "no room")
    assert problem_of(error).kind == "storage-full"


@pytest.mark.parametrize("error", [OSError(errno.EACCES, "no"), RuntimeError(), sqlite3.OperationalError("locked")])
def test_other_errors_still_are(error):
    assert problem_of(error).kind == "internal"


def test_a_database_that_is_full_is_not_our_bug(tmp_path):
    store = Store(f"sqlite:///{tmp_path / 'db'}")
    large = types.insert().values(name="T", document={"x": "y" * 1_000_000}, created_s=0.0)
    with store.begin() as connection:
        pages = connection.exec_driver_sql("PRAGMA page_count").scalar()
        connection.exec_driver_sql(f"PRAGMA max_page_count={pages}")
        with pytest.raises(sa.exc.OperationalError) as caught:
            connection.execute(large)
    assert problem_of(caught.value).kind == "storage-full"
    store.close()


def test_a_corrupt_database_is_named_in_one_sentence(tmp_path):
    (tmp_path / "db").write_bytes(b"garbage" * 1000)
    with pytest.raises(ResourceError, match=r"db cannot be opened \(file is not a database\): put back a copy"):
        Store(f"sqlite:///{tmp_path / 'db'}")


def test_a_database_of_a_later_version_is_named_in_one_sentence(tmp_path):
    store = Store(f"sqlite:///{tmp_path / 'db'}")
    with store.begin() as connection:
        connection.exec_driver_sql("UPDATE alembic_version SET version_num = '9999'")
    store.close()
    with pytest.raises(ResourceError, match=r"cannot be opened \(Can't locate revision"):
        Store(f"sqlite:///{tmp_path / 'db'}")
