"""examples/shared_memory.py in virtual time, and examples/peers.py on loopback; docs/peers.md names what is there."""

from __future__ import annotations

import re
import runpy
from pathlib import Path
from typing import Any

import pytest

from kit.public_names import HOMES
from vivavoce.agents.testing import run_virtual

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs" / "peers.md").read_text(encoding="utf-8")


def example(name: str) -> dict[str, Any]:
    return runpy.run_path(str(ROOT / "examples" / name))


def test_the_agents_share_data_and_a_stream(capsys: pytest.CaptureFixture[str]) -> None:
    run_virtual(example("shared_memory.py")["main"]())

    assert capsys.readouterr().out.splitlines() == [
        "served: soup of table 7",
        "served: fish of table 7",
        "served: cake of table 7",
        "all: soup, fish, cake",
    ]


async def test_the_host_asks_the_specialist(capsys: pytest.CaptureFixture[str]) -> None:
    await example("peers.py")["main"]()

    assert capsys.readouterr().out.splitlines() == [
        "host asks for friday",
        'rooms answers {"free": 2}',
        "host: I have asked for friday. Is there anything else?",
    ]


def test_each_class_that_the_page_names_is_public() -> None:
    code = [*re.findall(r"`([^`\n]+)`", PAGE), *re.findall(r"^```python\n(.*?)^```", PAGE, flags=re.M | re.S)]
    named = {name for one in code for name in re.findall(r"(?<![.\w])[A-Z][a-z]+(?:[A-Z][A-Za-z]*)+\b", one)}
    assert {"PeerServer", "AgentRegistry", "PeerUnreachable"} <= named
    assert named - {"TaxQuestion", "TaxAnswer", "BaseModel", "ConfigurationError"} <= set(HOMES)
