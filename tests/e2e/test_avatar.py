"""An avatar written with livekit-agents' own avatar classes speaks for the agent, on both room servers.

The avatar runs as a process in livekit-agents' environment; the agent's voice is espeak. The caller tells the voices
apart by the tracks' participants.
"""

from __future__ import annotations

import time
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AsyncExitStack
from pathlib import Path

import anyio
import pytest
from livekit import rtc

from kit.e2e.avatar_process import AvatarProcess, avatar_process
from kit.e2e.calls import GRAMMAR
from kit.e2e.listener import Listener, listening
from kit.e2e.room_endpoint import RoomEndpoint
from kit.e2e.talker import record
from kit.limits import LIMIT
from vivavoce.agents import Agent, AgentSession, RoomOptions, SessionOptions
from vivavoce.agents.events import ErrorOccurred
from vivavoce.agents.testing import Recording, ScriptedLLM
from vivavoce.agents.transports import AvatarOptions, avatar_token
from vivavoce.pipelines import CascadingPipeline
from vivavoce.pipelines.core.errors import AvatarError
from vivavoce.plugins import espeak, pocketsphinx, silero

pytestmark = [
    pytest.mark.e2e,
    pytest.mark.timeout(150),
    pytest.mark.test_all("real voices are timed, and a recogniser may mishear a word"),
]

SHORT = "We have a table for you on friday"
LONG = (
    "the kitchen of this house takes the last order at ten in the evening and every table by the window is kept for "
    "exactly fifteen minutes and then it goes to the next guests who wait at the bar"
)


class Call:
    def __init__(
        self, session: AgentSession[object], caller: Listener, events: Recording, avatar: AvatarProcess
    ) -> None:
        self.session, self.caller, self.events, self.avatar = session, caller, events, avatar

    async def hears(self, identity: str, *, since: float = 0.0) -> None:
        await self.caller.until(lambda: any(at > since for at in self.caller.heard.get(identity, [])))

    async def falls_silent(self) -> float:
        """Wait until there was no sound for 0.6 s; return when the last sound came."""
        await anyio.sleep(0.6)
        with anyio.fail_after(LIMIT):
            while (left := self.caller.loud_at[-1] + 0.6 - time.monotonic()) > 0:  # noqa: ASYNC110 - silence is no event
                await anyio.sleep(left)
        return self.caller.loud_at[-1]


Start = Callable[..., Awaitable[Call]]


@pytest.fixture
async def call(
    room_server: RoomEndpoint,
    room_name: str,
    agent_room: rtc.Room,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> AsyncIterator[Start]:
    for name in ("url", "api_key", "api_secret"):
        monkeypatch.setenv(f"LIVEKIT_{name.upper()}", getattr(room_server, name))
    async with AsyncExitStack() as stack:
        tts = await stack.enter_async_context(espeak.TTS(rate=160))

        async def start(*answers: str) -> Call:
            caller = await stack.enter_async_context(listening(room_server.url, room_server.token("caller", room_name)))
            token = avatar_token("avatar", room=agent_room)
            avatar = await stack.enter_async_context(avatar_process(room_server.url, token, tmp_path))
            options = RoomOptions(avatar=AvatarOptions(identity="avatar", join_limit=30.0))
            pipeline = CascadingPipeline(tts=tts)
            if answers:
                vad = await stack.enter_async_context(silero.VAD())
                stt = await stack.enter_async_context(pocketsphinx.STT(grammar=GRAMMAR, fillers=pocketsphinx.FILLERS))
                pipeline = CascadingPipeline(vad=vad, stt=stt, llm=ScriptedLLM(*answers), tts=tts)
            options_of_session = SessionOptions(start_step=40.0, preemptive=False)
            session = AgentSession[object](Agent("Be brief."), pipeline, options=options_of_session)
            stack.push_async_callback(session.close)
            events = Recording()
            events.listen(session)
            await session.start(agent_room, room_options=options)
            return Call(session, caller, events, avatar)

        yield start


@pytest.mark.real_server
async def test_the_caller_hears_the_agent_through_the_avatar_and_an_interruption_stops_it(call: Start) -> None:
    it = await call()
    said = it.session.say(SHORT)
    await said
    assert (said.outcome, said.heard_text) == ("completed", SHORT)
    await it.falls_silent()
    assert len(it.caller.heard["avatar"]) > 50
    assert it.caller.heard.get("agent", []) == []
    (finished,) = it.avatar.reports("finished")
    assert not finished["interrupted"]

    began = time.monotonic()
    long = it.session.say(LONG)
    await it.hears("avatar", since=began)
    await anyio.sleep(2.0)
    cut_at = time.monotonic()
    await it.session.interrupt()
    await long
    silent_at = await it.falls_silent()
    assert silent_at - cut_at < 1.5
    assert long.interrupted
    _, cut = it.avatar.reports("finished")
    assert cut["interrupted"]
    assert long.played_seconds == pytest.approx(cut["position"], abs=0.001)
    assert 0 < len(long.heard_text) < len(LONG)
    assert LONG.startswith(long.heard_text)
    message = it.session.history.messages("assistant")[-1]
    assert (message.content, message.interrupted) == (long.heard_text, True)

    again = it.session.say(SHORT)
    await again
    assert again.heard_text == SHORT
    assert it.events.of(ErrorOccurred) == []


async def test_the_callers_words_cut_the_avatar_and_the_answer_comes_through_it(call: Start) -> None:
    line = (await record(["wait stop please"]))["wait stop please"]
    it = await call(SHORT)
    began = time.monotonic()
    long = it.session.say(LONG)
    await it.hears("avatar", since=began)
    await anyio.sleep(1.0)
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(it.caller.speak, line)
        await long
        assert long.interrupted
        cut = it.avatar.reports("finished")[-1]
        assert cut["interrupted"]
        assert long.played_seconds == pytest.approx(cut["position"], abs=0.001)
        await it.caller.until(lambda: len(it.session.turns) == 2)
    said = [(message.role, message.content) for message in it.session.history.messages()]
    assert said == [("assistant", long.heard_text), ("user", "wait stop please"), ("assistant", SHORT)]
    assert LONG.startswith(long.heard_text)
    assert it.caller.heard.get("agent", []) == []


@pytest.mark.test_all("the development room takes 10 s to notice")
async def test_when_the_avatar_dies_the_agents_own_track_speaks(call: Start) -> None:
    it = await call()
    await it.session.say(SHORT)
    began = time.monotonic()
    long = it.session.say(LONG)
    await it.hears("avatar", since=began)
    it.avatar.kill()
    await long
    assert long.outcome == "completed"
    after = it.session.say(SHORT)
    await after
    assert after.heard_text == SHORT
    await it.falls_silent()
    assert len(it.caller.heard["agent"]) > 50
    errors = it.events.of(ErrorOccurred)
    assert [(error.source, error.is_recovered) for error in errors] == [("avatar", True)]
    assert isinstance(errors[0].error, AvatarError)
    assert errors[0].error.outcome == "own_audio"
