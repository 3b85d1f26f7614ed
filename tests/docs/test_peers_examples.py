"""examples/shared_memory.py in virtual time, and examples/peers.py on loopback; docs/peers.md: its programs run."""

from __future__ import annotations

import re
import runpy
import sys
from pathlib import Path
from types import ModuleType
from typing import Any

import anyio
import pytest

from kit.dialogues import Ask, Offer, negotiation
from kit.public_names import HOMES
from vivavoce.agents import Agent, AgentSession, SessionOptions
from vivavoce.agents.dialogues import DialogueContext, DialogueOptions, LocalChannel
from vivavoce.agents.memory import InProcessStore
from vivavoce.agents.peers import PeerServer
from vivavoce.agents.testing import run_virtual

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs" / "peers.md").read_text(encoding="utf-8")
TAX, HOST, _, _, RESUME = re.findall(r"^```python\n(.*?)^```", PAGE, flags=re.M | re.S)


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


async def test_the_two_programs_of_the_page_talk(monkeypatch: pytest.MonkeyPatch) -> None:
    tax = ModuleType("tax")
    exec(TAX, tax.__dict__)
    monkeypatch.setitem(sys.modules, "tax", tax)
    host = ModuleType("host")
    exec(HOST, host.__dict__)
    async with PeerServer(tax.specialist) as server:
        assert await host.ask(server.url) == "Form 7."


def test_a_session_of_the_page_begins_and_is_resumed_and_a_message_is_sent_until_it_is_taken() -> None:
    names: dict[str, Any] = {}
    exec(RESUME, names)
    asked, again, answers = negotiation(), negotiation(), negotiation()

    @answers.on("ask", Ask)
    async def accept(ctx: DialogueContext, sender: str, asked_for: Ask) -> None:
        await anyio.sleep(1.0)
        await names["send_until_taken"](ctx, sender, Offer(price=70))

    async def main() -> None:
        store, channel = InProcessStore(), LocalChannel()
        offers = DialogueOptions(dialogues=[answers], channel=channel, handler_timeout=60.0)
        async with AgentSession(Agent("x", id="hotel"), options=SessionOptions(dialogues=offers)) as hotel:
            await hotel.start()
            for dialogue in (asked, again):
                options = DialogueOptions(dialogues=[dialogue], channel=channel)
                async with await names["started"](Agent("x", id="guest"), options, store):
                    if dialogue is asked:
                        await dialogue.start_dialogue("hotel", Ask(item="a room"))  # and leaves before the answer
                    else:
                        await anyio.sleep(3.0)
                await anyio.sleep(2.0)  # the guest is away
            (conversation,) = again.get_sessions()
        assert [type(one.content) for one in again.get_conversation(conversation)] == [Ask, Offer]

    run_virtual(main())


def test_each_class_that_the_page_names_is_public() -> None:
    code = [*re.findall(r"`([^`\n]+)`", PAGE), *re.findall(r"^```python\n(.*?)^```", PAGE, flags=re.M | re.S)]
    named = {name for one in code for name in re.findall(r"(?<![.\w])[A-Z][a-z]+(?:[A-Z][A-Za-z]*)+\b", one)}
    assert {"PeerServer", "AgentRegistry", "PeerUnreachable"} <= named
    assert named - {"TaxQuestion", "TaxAnswer", "BaseModel", "ConfigurationError"} <= set(HOMES)
