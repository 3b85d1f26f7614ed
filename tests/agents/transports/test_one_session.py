"""A transport serves one session: another one is refused before it touches anything, and the first one goes on."""

from __future__ import annotations

from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import anyio
import pytest
from anyio import TASK_STATUS_IGNORED
from anyio.abc import TaskStatus

from kit.extensions import Look
from vivavoce.agents import Agent, AgentSession, RoomOptions, SessionOptions
from vivavoce.agents.current_job import job_scope
from vivavoce.agents.extension import Attached, Host
from vivavoce.agents.session_watch import watch_scope
from vivavoce.agents.testing import ScriptedLLM, ScriptedTTS, VirtualClock, run_virtual
from vivavoce.agents.transports import TextTransport
from vivavoce.agents.transports.console.transport import BLOCK, AudioEnds, ConsoleTransport, Exchange
from vivavoce.agents.transports.console.typed import TypedTransport
from vivavoce.agents.transports.local import LocalTransport, VirtualSink
from vivavoce.pipelines import CascadingPipeline
from vivavoce.pipelines.core.errors import RoomError, SessionClosedError
from vivavoce.pipelines.io import AudioSink, Transport, TransportEvents


class Ends(AudioEnds):
    async def run(self, exchange: Exchange, *, task_status: TaskStatus[None] = TASK_STATUS_IGNORED) -> None:
        task_status.started()
        while True:
            exchange.played(exchange.take(BLOCK))
            await anyio.sleep(0.01)


class Own(Transport):
    """A transport of an application."""

    def __init__(self) -> None:
        self._sink = VirtualSink(VirtualClock())
        self.closed = 0

    @property
    def sink(self) -> AudioSink:
        return self._sink

    async def run(self, events: TransportEvents, *, task_status: TaskStatus[None] = TASK_STATUS_IGNORED) -> None:
        task_status.started()
        events.participant_linked("caller")
        await anyio.sleep_forever()

    async def aclose(self) -> None:
        self.closed += 1


class Failing(Attached):
    async def open(self) -> None:
        await anyio.sleep(1.0)
        raise OSError("no shelf")


class FailingLook(Look):
    def attach(self, host: Host) -> Attached:
        return Failing()


class Watch:
    """Notes the sessions that begin."""

    publishes_turns = has_conversation = False

    def __init__(self) -> None:
        self.sessions: list[Any] = []

    def session_begins(self, session: Any) -> None:
        self.sessions.append(session)

    async def take_over(self, check: Callable[[dict[str, Any]], object]) -> dict[str, Any] | None:
        return None

    def keeper(self, room: str) -> None:
        return None


def session(*answers: str, is_broken: bool = False) -> AgentSession[Any]:
    options = SessionOptions(clock=VirtualClock(), extensions=(FailingLook(),) if is_broken else ())
    pipeline = CascadingPipeline(llm=ScriptedLLM(*answers), tts=ScriptedTTS())
    return AgentSession(Agent("Help."), pipeline, options=options)


@pytest.mark.parametrize(
    "make",
    [
        TextTransport,
        TypedTransport,
        lambda: LocalTransport(VirtualClock()),
        lambda: ConsoleTransport(Ends(), VirtualClock()),
        Own,
    ],
    ids=["text", "typed", "local", "console", "own"],
)
def test_a_transport_in_use_is_refused_and_its_session_goes_on(make: Callable[[], Transport]) -> None:
    async def main() -> None:
        transport = make()
        async with session() as first:
            await first.start(transport)
            words = first.say("These words are played to their end, whoever comes.")
            await anyio.sleep(0.1)
            async with session() as second:
                with pytest.raises(RoomError, match=f"a {type(transport).__name__} serves one session"):
                    await second.start(transport)
            await words
            assert words.outcome == "completed"
            assert first.history.messages()[-1].content == "These words are played to their end, whoever comes."
        async with session() as third:
            with pytest.raises(RoomError, match="serves one session, and this one has had its own; make another"):
                await third.start(transport)

    run_virtual(main())


def test_a_livekit_transport_in_use_is_refused() -> None:
    rtc = pytest.importorskip("livekit.rtc")

    async def main() -> None:
        from vivavoce.agents.transports.livekit import LiveKitTransport

        transport = LiveKitTransport(rtc.Room(), options=RoomOptions(), clock=VirtualClock())
        transport.claim()
        async with session() as second:
            with pytest.raises(RoomError, match="a LiveKitTransport serves one session"):
                await second.start(transport)

    run_virtual(main())


def test_a_room_that_is_not_connected_is_refused_with_what_to_do() -> None:
    rtc = pytest.importorskip("livekit.rtc")

    async def main() -> None:
        with pytest.raises(RoomError, match=r"await ctx\.connect\(\) or room\.connect\(url, token\) before"):
            await session().start(rtc.Room())

    run_virtual(main())


def test_a_chat_goes_on_where_another_session_wanted_its_transport() -> None:
    async def main() -> None:
        chat = TextTransport()
        async with session("Soup.") as first:
            await first.start(chat)
            async with session() as second:
                with pytest.raises(RoomError):
                    await second.start(chat)
            chat.send("what is there")
            assert (await chat.receive()).text == "Soup."

    run_virtual(main())


def test_a_session_that_was_refused_may_start_with_another_transport() -> None:
    async def main() -> None:
        taken, chat = TextTransport(), TextTransport()
        taken.claim()
        async with session("Soup.") as second:
            with pytest.raises(RoomError):
                await second.start(taken)
            await second.start(chat)
            chat.send("what is there")
            assert (await chat.receive()).text == "Soup."

    run_virtual(main())


def test_a_session_that_was_refused_may_go_on_with_a_conversation_on_another_transport() -> None:
    async def main() -> None:
        taken, before, chat = TextTransport(), TextTransport(), TextTransport()
        taken.claim()
        async with session("Soup.") as first:
            await first.start(before)
            before.send("what is there")
            await before.receive()
        conversation = first.snapshot()
        async with session("Bread.") as second:
            with pytest.raises(RoomError):
                await second.start(taken, resume_from=conversation)
            await second.start(chat, resume_from=conversation)
            chat.send("and besides")
            assert (await chat.receive()).text == "Bread."
            assert [message.content for message in second.history.messages()][:2] == ["what is there", "Soup."]

    run_virtual(main())


def test_a_start_that_is_refused_begins_no_session_for_its_job_and_its_watch() -> None:
    watch, waits = Watch(), list[Any]()
    context = SimpleNamespace(job=SimpleNamespace(id="AJ_1"))  # the filter of logs asks for it, if a test has set it
    job = SimpleNamespace(session_begins=waits.append, attach_session=lambda close: None, reason="", context=context)

    async def main() -> None:
        taken, chat = TextTransport(), TextTransport()
        taken.claim()
        with job_scope(job), watch_scope(watch):  # type: ignore[arg-type]  # the used part of a job
            async with session("Soup.") as second:
                with pytest.raises(RoomError):
                    await second.start(taken)
                assert (watch.sessions, waits) == ([], [])
                await second.start(chat)
                assert (watch.sessions, waits) == ([second], [second.wait_closed])

    run_virtual(main())


def test_a_reader_learns_the_end_of_a_session_whose_start_fails_before_it_takes_the_transport() -> None:
    async def main() -> None:
        chat = TextTransport()
        async with anyio.create_task_group() as group:

            async def read() -> None:
                with pytest.raises(SessionClosedError):
                    await chat.receive()
                assert [piece async for piece in chat] == []

            group.start_soon(read)
            with pytest.raises(OSError, match="no shelf"):
                await session(is_broken=True).start(chat)
            with pytest.raises(SessionClosedError, match="begin another one"):
                chat.send("hello?")

    run_virtual(main())


def test_a_transport_is_closed_once_by_a_start_that_fails_before_it_takes_it_and_by_a_close() -> None:
    async def main() -> None:
        broken, whole = Own(), Own()
        with pytest.raises(OSError, match="no shelf"):
            await session(is_broken=True).start(broken)
        async with session() as one:
            await one.start(whole)
        assert (broken.closed, whole.closed) == (1, 1)

    run_virtual(main())
