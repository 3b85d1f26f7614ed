"""The page's schema.js equals the present livekit.protocol."""

from __future__ import annotations

from kit.page.schema import SCHEMA, schema


def test_the_pages_schema_is_up_to_date() -> None:
    assert SCHEMA.read_text() == schema(), "run: python tests/kit/page/schema.py"
