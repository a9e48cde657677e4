"""Bundles that require packages, over REST; where working nodes are threads, so that nothing has to be started."""

import os
import subprocess
import sys

import pytest

NAME = "gsdm_test_numerals"
BUNDLE = f"""
# /// script
# dependencies = ["{NAME}{{wanted}}"]
# ///
import {NAME}
from gsdm_grid import Radio, sqf

@sqf(Radio)
def level(s):
    return {NAME}.VERSION
"""
SPEC = {"name": "q", "inputs": [{"type": "Radio", "interface": "synthetic_radio"}], "function": "mylib.level"}


@pytest.mark.slow
def test_requirements_are_met_or_named(own_service, wheels, tmp_path):
    wheels(NAME, "1.0", "VERSION = 1\n")
    service = own_service("--placement", "threads").start()
    with service.client() as rest:

        def upload(wanted):
            content = BUNDLE.format(wanted=wanted).encode()
            return rest.put(
                "/v1/bundles/mylib", content=content, headers={"Content-Type": "text/x-python"}, timeout=120
            )

        refused = upload(">=2")
        assert refused.status_code == 422
        problem = refused.json()
        assert problem["type"] == "urn:gsdm:problem:unmet-requirement"
        assert problem["requirement"] == f"{NAME}>=2"
        assert "the newest are 1.0" in problem["detail"]
        assert upload(" @ file:///x.whl").json()["type"] == "urn:gsdm:problem:invalid-request"
        assert rest.get("/v1/bundles").json()["items"] == []

        made = upload("")
        assert made.status_code == 201
        assert (made.json()["requirements"], made.json()["packages"]) == ([NAME], ["gsdm-test-numerals==1.0"])
        assert upload("").status_code == 200

        on_threads = rest.post("/v1/queries", json=SPEC)
        assert on_threads.status_code == 422
        assert "packages of their own (gsdm-test-numerals 1.0)" in on_threads.json()["detail"]
        assert rest.post("/v1/queries", json={**SPEC, "placement": "ray"}).status_code == 201

    service.kill()
    service.start()
    with service.client() as rest:
        assert rest.get("/v1/bundles/mylib").json()["error"] is None
        assert rest.get("/v1/functions/mylib.level").json()["version"] == 1

        (tmp_path / "functions.py").write_text(BUNDLE.format(wanted="==1"))
        command = [sys.executable, "-m", "gsdm_grid.cli", "bundle", "upload", "mylib", str(tmp_path / "functions.py")]
        where = {**os.environ, "GSDM_SERVER": service.url, "GSDM_TOKEN": service.token}
        done = subprocess.run(command, env=where, capture_output=True, text=True, check=True)
        assert "installed for it: gsdm-test-numerals==1.0" in done.stdout
        assert rest.delete("/v1/queries/q").status_code == 202
