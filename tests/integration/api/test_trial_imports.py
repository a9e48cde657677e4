"""Importing uploaded code in processes that may end in any way: the others are imported all the same."""

import pytest

from api.registry.trial_imports import Package, in_processes

CODE = {
    "fine": "import numpy",
    "leaves": "import os; os._exit(5)",
    "raises": "raise SystemExit(3)",
    "stays": "while True: pass",
    "starts": "import subprocess; subprocess.Popen(['sleep', '600'])",
}


@pytest.fixture
def packages(tmp_path):
    for name, code in CODE.items():
        (tmp_path / name).mkdir()
        (tmp_path / name / "__init__.py").write_text(code)
    return [Package(f"gsdm_bundles.{name}_v1", tmp_path / name) for name in CODE]


def test_each_package_is_tried_whatever_became_of_those_before_it(packages):
    causes = in_processes(3.0)(packages)
    assert causes == {
        "gsdm_bundles.leaves_v1": "it ended its process, with exit code 5",
        "gsdm_bundles.raises_v1": "SystemExit: 3 (__init__.py, line 1)",
        "gsdm_bundles.stays_v1": "it had not ended after 3 s",
    }
