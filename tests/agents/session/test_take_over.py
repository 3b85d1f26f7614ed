"""Take over: a session that is ready beside another one continues its conversation when that one releases it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import anyio
import pytest

from vivavoce.agents import Agent, AgentSession, SessionOptions
from vivavoce.agents.agent import CompletedTurn
from vivavoce.agents.session_watch import Conversation, watch_scope
from vivavoce.agents.states import CloseReason
from vivavoce.agents.testing import ScriptedLLM, SessionHarness, VirtualClock, run_virtual
from vivavoce.agents.transports.local import LocalTransport, VirtualSink
from vivavoce.pipelines.core.errors import ConfigurationError
from vivavoce.pipelines.media.frame import AudioFrame


class Host(Agent):
    def __init__(self) -> None:
        super().__init__("Take bookings.")
        self.log: list[str] = []

    async def on_enter(self) -> None:
        self.log.append("enter")
        await self.session.say("Hello.")

    async def on_exit(self) -> None:
        self.log.append("exit")

    async def on_user_turn_completed(self, turn: CompletedTurn) -> None:
        self.log.append(turn.text)


class Watch:
    """Hands a conversation over on request."""

    publishes_turns = False
    has_conversation = True

    def __init__(self, preview: Conversation | None) -> None:
        self.preview = preview
        self.is_ready = anyio.Event()
        self.coming: Conversation | None = None
        self.came = anyio.Event()

    def session_begins(self, session: Any) -> None:
        self.session = session

    async def take_over(self, check: Callable[[Conversation], object]) -> Conversation | None:
        if self.preview is not None:
            check(self.preview)
        self.is_ready.set()
        await self.came.wait()
        return self.coming

    def keeper(self, room: str) -> None:
        return None

    def go_on(self, conversation: Conversation | None) -> None:
        self.coming = conversation
        self.came.set()


def _session(clock: VirtualClock, host: Host, *answers: str, userdata: object = None) -> AgentSession[Any]:
    harness = SessionHarness(host, ScriptedLLM(*answers, delay=0.1))
    return AgentSession(host, harness.pipeline, userdata=userdata, options=SessionOptions(clock=clock))


def test_the_new_session_waits_ready_and_silent_and_answers_at_once_when_the_old_one_lets_go() -> None:
    async def main() -> None:
        clock = VirtualClock()
        old_host, new_host = Host(), Host()
        old, new = _session(clock, old_host, "For when?"), _session(clock, new_host, "Booked.", userdata=None)
        old_room, new_room = LocalTransport(clock), LocalTransport(clock)
        await old.start(old_room)
        old_room.send_text("a table")
        await anyio.sleep(5.0)
        watch = Watch(old.snapshot())
        with watch_scope(watch):
            async with anyio.create_task_group() as group:
                group.start_soon(new.start, new_room)
                await watch.is_ready.wait()
                assert watch.session is new
                old_room.send_text("never mind")  # to the one that has the conversation, and to that one alone
                new_room.send_text("never mind")
                new_room.push_audio(AudioFrame.silence(0.02, new_room.input_rate))
                await anyio.sleep(2.0)
                snapshot = old.snapshot()
                await old.close(CloseReason.REPLACED)
                assert new_host.log == []
                began = clock.now()
                watch.go_on(snapshot)
        assert clock.now() == began
        new_room.send_text("friday")
        await anyio.sleep(3.0)
        assert old_host.log == ["enter", "a table", "never mind"]  # no "exit"
        assert new_host.log == ["friday"]
        said = [(message.role, message.content) for message in new.history.messages()]
        assert said[:3] == [("assistant", "Hello."), ("user", "a table"), ("assistant", "For when?")]
        assert said[-2:] == [("user", "friday"), ("assistant", "Booked.")]
        assert new.history.messages("user")[-1].turn_id == "turn_3"
        assert isinstance(new_room.sink, VirtualSink)
        assert new_room.sink.frames()[0].at > began
        await new.close()
        assert new_host.log == ["friday", "exit"]

    run_virtual(main())


def test_what_the_new_session_cannot_go_on_with_fails_its_start_while_the_old_one_still_talks() -> None:
    async def main() -> None:
        clock = VirtualClock()
        old = _session(clock, Host())
        await old.start(LocalTransport(clock))
        watch = Watch({**old.snapshot(), "version": 99})
        new = _session(clock, Host())
        with watch_scope(watch), pytest.raises(ConfigurationError, match="a snapshot must be of version"):
            await new.start(LocalTransport(clock))
        assert not watch.is_ready.is_set()
        _ = old.say("Still here.")
        await anyio.sleep(2.0)
        assert old.history.messages()[-1].content == "Still here."
        await old.close()

    run_virtual(main())


def test_without_a_conversation_after_all_the_new_session_greets() -> None:
    async def main() -> None:
        clock = VirtualClock()
        host = Host()
        watch = Watch(None)
        watch.go_on(None)
        new = _session(clock, host)
        with watch_scope(watch):
            await new.start(LocalTransport(clock))
        assert host.log == ["enter"]
        await new.close()

    run_virtual(main())


def test_a_session_that_waits_can_be_closed() -> None:
    async def main() -> None:
        clock = VirtualClock()
        host = Host()
        watch = Watch(None)
        new = _session(clock, host)
        with watch_scope(watch):
            async with anyio.create_task_group() as group:

                async def start() -> None:
                    with pytest.raises(Exception, match="closed while it was starting"):
                        await new.start(LocalTransport(clock))

                group.start_soon(start)
                await watch.is_ready.wait()
                report = await new.close()
        assert not [step for step in report.steps if step.error]
        assert host.log == []

    run_virtual(main())
