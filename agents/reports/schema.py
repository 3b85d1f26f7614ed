"""The JSON schema of a session report, version 1: made from the record classes, published as a file beside this one."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from vivavoce.agents.records import REPORT_VERSION, SessionReport

SCHEMA_PATH = Path(__file__).with_name(f"session_report_v{REPORT_VERSION}.schema.json")
"""The published file."""


def schema() -> dict[str, Any]:
    """Return the published schema (JSON Schema 2020-12)."""
    published: dict[str, Any] = json.loads(SCHEMA_PATH.read_text(encoding="utf-8"))
    return published


def make_schema() -> dict[str, Any]:
    """Return the schema of the record classes; a test compares the published file with it."""
    from pydantic import TypeAdapter

    made = TypeAdapter(SessionReport).json_schema(mode="serialization")
    made["properties"]["version"] = {"const": REPORT_VERSION, "title": "Version", "type": "integer"}
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "$id": f"vivavoce:session-report:v{REPORT_VERSION}",
        **made,
        "title": f"Vivavoce session report, version {REPORT_VERSION}",
    }
