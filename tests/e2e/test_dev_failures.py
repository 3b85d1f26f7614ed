"""Under `vivavoce dev` callers learn that the agent's code failed, and its error; elsewhere the error stays inside."""

from __future__ import annotations

import asyncio
import json
import re
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from kit.e2e.command import Running, running
from kit.e2e.dev_app import seen, token_for, url_of
from kit.e2e.listener import listening
from kit.e2e.room_endpoint import RoomEndpoint
from kit.page.caller import Caller, calling
from vivavoce.agents.dev_room import RoomProcess

pytestmark = [pytest.mark.e2e, pytest.mark.timeout(180)]

ON_ENTER = """
from vivavoce.agents import Agent, AgentSession
from vivavoce.pipelines import CascadingPipeline
from vivavoce.pipelines.testing import ScriptedLLM, ScriptedTTS


class Host(Agent):
    def __init__(self):
        super().__init__("Be brief.")

    async def on_enter(self):
        raise LookupError("no menu for friday")


async def entrypoint(ctx):
    await AgentSession(Host(), CascadingPipeline(llm=ScriptedLLM(), tts=ScriptedTTS())).start()
"""
ENTRYPOINT = """
async def entrypoint(ctx):
    raise LookupError("no such table")
"""
NO_SESSION = """
async def entrypoint(ctx):
    pass
"""
CALL = """
[[steps]]
say = "on friday"
"""


async def call(folder: Path, out: str, *options: str) -> str:
    """Place a call and return its problem."""
    (folder / "call.toml").write_text(CALL)
    with running(folder, "call", "call.toml", "--out", out, *options) as command:
        status = await asyncio.to_thread(command.process.wait, 60)
    result = json.loads((folder / out / "result.json").read_text())
    assert (status, result["passed"]) == (1, False)
    return str(result["calls"][0]["problem"])


TOLD = """
(error) => document.getElementById('banner-title').textContent === 'The agent’s code failed'
    && document.getElementById('banner-text').textContent.startsWith(error)
    && document.body.dataset.state === 'closed'
"""


async def told(caller: Caller, error: str) -> None:
    """Wait until the page shows that the agent's code failed, and its error."""
    await caller.until(TOLD.strip(), error)
    assert set(await caller.titles()) == {"The agent’s code failed"}


@asynccontextmanager
async def failing(folder: Path, code: str, *options: str) -> AsyncIterator[tuple[Running, Caller]]:
    """`vivavoce dev` with this code, and its page in a browser."""
    (folder / "app.py").write_text(code)
    with running(folder, "dev", "app.py", "--port", "0", *options) as dev:
        await seen(dev, "registered")
        (page,) = re.findall(r"^page +(http\S+)", dev.seen, re.MULTILINE)
        async with calling(page) as caller:
            yield dev, caller
        assert dev.end() == 0


async def test_page_and_call_say_with_its_error_that_the_agents_code_failed(tmp_path: Path) -> None:
    async with failing(tmp_path, ON_ENTER) as (dev, caller):
        await caller.click("join-typing")
        await told(caller, "LookupError: no menu for friday")
        problem = await call(tmp_path, "out", "--url", url_of(dev))
        assert problem == "the agent's code failed: LookupError: no menu for friday"


async def test_a_call_to_a_room_whose_agent_has_failed_before_names_that_error(tmp_path: Path) -> None:
    (tmp_path / "app.py").write_text(ON_ENTER)
    with running(tmp_path, "dev", "app.py", "--port", "0") as dev:
        await seen(dev, "registered")
        async with listening(url_of(dev), token_for(dev, "kitchen")) as first:
            gone: list[str] = []
            first.room.on("participant_disconnected", lambda agent: gone.append(agent.identity))
            await first.until(lambda: bool(gone))
            to = ("--url", url_of(dev), "--room", "kitchen", "--answer-limit", "0.1")
            problem = await call(tmp_path, "out", *to)
        assert problem == (
            "no agent answered the call: the agent's code failed before in this room: LookupError: no menu for friday"
        )
        assert dev.end() == 0


@pytest.mark.test_all("each save starts a process; make test holds one failure")
async def test_page_and_call_say_so_too_of_an_agent_that_never_joined_its_room(
    livekit_room: RoomEndpoint, room_name: str, tmp_path: Path
) -> None:
    name = f"dev-{room_name}"
    account = ("--url", livekit_room.url, "--api-key", livekit_room.api_key, "--api-secret", livekit_room.api_secret)
    calls = (*account, "--agent-name", name)
    async with failing(tmp_path, ENTRYPOINT, *account, "--agent-name", name) as (dev, caller):
        await caller.click("join-typing")
        await told(caller, "LookupError: no such table")
        assert "LookupError: no such table" in await call(tmp_path, "first", *calls)
        (tmp_path / "app.py").write_text(NO_SESSION)
        await seen(dev, "The new code talks now")
        await caller.page.evaluate("window.titles = []")
        await caller.click("again")
        await told(caller, "the entrypoint has returned without a session")
        assert "the entrypoint has returned without a session" in await call(tmp_path, "second", *calls)


@pytest.mark.test_all("the same in a unit is in make test")
async def test_of_a_worker_in_production_no_caller_learns_the_error_of_its_code(tmp_path: Path) -> None:
    (tmp_path / "app.py").write_text(ON_ENTER)
    async with RoomProcess() as room:
        server = RoomEndpoint(url=room.url, api_key=room.api_key, api_secret=room.api_secret, kind="embedded")
        account = ("--url", room.url, "--api-key", room.api_key, "--api-secret", room.api_secret)
        with running(tmp_path, "start", "app.py", *account) as worker:
            await seen(worker, "registered")
            async with listening(room.url, server.token("caller", "kitchen")) as caller:
                gone: list[dict[str, str]] = []
                caller.room.on("participant_disconnected", lambda agent: gone.append(dict(agent.attributes)))
                await caller.until(lambda: bool(gone))
                assert "menu" not in str(gone)
            await seen(worker, "the entrypoint failed")
            worker.end()
