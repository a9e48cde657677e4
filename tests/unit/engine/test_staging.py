import os
import time

import pytest

from gsdm_grid.engine import package_staging
from gsdm_grid.engine.package_staging import PIECE_BYTES, PackageCache
from gsdm_grid.errors import ResourceError
from gsdm_grid.functions import PackageSet, packages
from gsdm_grid.functions.packages import pack


@pytest.fixture
def offered(tmp_path):
    """A set of packages that a coordinator offers: more than fits into the pieces that are asked for ahead."""
    folder = tmp_path / "coordinator"
    folder.mkdir()
    (folder / "gsdm_staged.py").write_text("VALUE = 42\n")
    (folder / "data.bin").write_bytes(os.urandom(PIECE_BYTES * (package_staging.AHEAD + 3) + 17))
    archive = tmp_path / "archive.zip"
    made = PackageSet(pack(folder, archive), folder, archive)
    packages.add(made)
    yield made
    packages.remove(made.digest)


def test_what_arrives_damaged_is_not_kept_and_fetched_again(offered, tmp_path):
    cache = PackageCache(tmp_path / "cache")
    with pytest.raises(ResourceError, match="arrived damaged"):
        cache.get(offered.digest, lambda digest, target: target.write_bytes(b"PK"))
    assert not (tmp_path / "cache" / offered.digest).exists()
    found = cache.get(offered.digest, lambda digest, target: target.write_bytes(offered.archive.read_bytes()))
    assert (found.folder / "gsdm_staged.py").read_text() == "VALUE = 42\n"


def test_sets_that_nobody_has_used_for_long_are_removed_but_not_while_in_use(offered, tmp_path):
    folder = tmp_path / "cache"
    cache = PackageCache(folder)
    long_ago_s = time.time() - package_staging.UNUSED_S - 60
    for name in ("old", "used"):
        (folder / name).mkdir(parents=True)
        (folder / f"{name}.lock").touch()
    cache.get("used", lambda digest, target: pytest.fail("it is there"))
    for name in ("old", "used"):
        os.utime(folder / f"{name}.lock", (long_ago_s, long_ago_s))
    cache.get(offered.digest, lambda digest, target: target.write_bytes(offered.archive.read_bytes()))
    assert not (folder / "old").exists()
    assert (folder / "used").exists()
    assert (folder / offered.digest).exists()


def test_a_cache_that_others_may_write_to_is_refused(tmp_path):
    (tmp_path / "cache").mkdir()
    (tmp_path / "cache").chmod(0o777)
    with pytest.raises(ResourceError, match="others own the cache"):
        PackageCache(tmp_path / "cache").get("x", lambda digest, target: None)
