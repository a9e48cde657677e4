"""The OpenAPI document against the running coordinator, by schemathesis with all its checks."""

import json
import subprocess
import sys

import pytest

# What generated data may be answered with although it fits the document: its names are those of nothing.
CONFIGURATION = """
[checks.positive_data_acceptance]
expected-statuses = ["2xx", "401", "403", "404", "406", "409", "412", "415", "422", "429"]
"""


@pytest.mark.slow
@pytest.mark.parametrize(
    ("phases", "examples", "least_requests"),
    [
        pytest.param("examples,fuzzing", 4, 200, id="short"),
        pytest.param("examples,coverage,fuzzing", 10, 2000, id="thorough", marks=pytest.mark.long),
    ],
)
def test_every_documented_operation_answers_as_documented(own_service, tmp_path, phases, examples, least_requests):
    service = own_service("--placement", "threads").start()
    configuration, report = tmp_path / "schemathesis.toml", tmp_path / "report.json"
    configuration.write_text(CONFIGURATION)
    command = [sys.executable, "-m", "schemathesis.cli", "--config-file", str(configuration), "run"]
    options = {
        "--header": f"Authorization: Bearer {service.token}",
        "--checks": "all",
        "--phases": phases,
        "--max-examples": str(examples),
        "--request-timeout": "20",
        "--seed": "1",
        "--report": "json",
        "--report-json-path": str(report),
    }
    listed = [part for option in options.items() for part in option]
    done = subprocess.run(
        [*command, f"{service.url}/openapi.json", *listed, "--no-shrink", "--continue-on-failure"],
        capture_output=True,
        text=True,
        check=False,
        timeout=280,
        cwd=tmp_path,
    )
    assert done.returncode == 0, done.stdout[-6000:] + done.stderr[-2000:]
    answered = [json.loads(line)["status"] for line in service.log_lines() if '"message": "request"' in line]
    assert len(answered) >= least_requests
    assert max(answered) < 500
