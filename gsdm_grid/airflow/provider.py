"""What Airflow wants to know of a provider; it finds this by an entry point."""

from __future__ import annotations

from typing import Any

_ROOM = "gsdm_grid.airflow"
_NAME = "GSDM-grid"


def get_provider_info() -> dict[str, Any]:
    """Names of everything that the provider adds."""

    def modules(name: str) -> list[dict[str, Any]]:
        return [{"integration-name": _NAME, "python-modules": [f"{_ROOM}.{name}"]}]

    return {
        "package-name": "gsdm-grid",
        "name": _NAME,
        "description": "Trial runs and plans of continuous queries, with a GSDM-grid coordinator.",
        "integrations": [{"integration-name": _NAME, "external-doc-url": "docs/airflow.md", "tags": ["service"]}],
        "hooks": modules("hooks"),
        "operators": modules("operators"),
        "sensors": modules("sensors"),
        "triggers": modules("triggers"),
        "connection-types": [
            {
                "connection-type": "gsdm",
                "hook-class-name": f"{_ROOM}.hooks.GsdmHook",
                "hook-name": "GSDM-grid coordinator",
            }
        ],
        "extra-links": [f"{_ROOM}.links.{name}" for name in ("QueryLink", "TrialLink", "ReportLink")],
    }
