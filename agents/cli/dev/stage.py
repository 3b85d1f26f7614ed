"""Stage: the calls of one child process: shown in the other process, handed over and taken over."""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping
from dataclasses import fields
from functools import partial
from typing import Any

import anyio
from anyio.abc import TaskGroup

from vivavoce.agents import events
from vivavoce.agents.agent import Agent
from vivavoce.agents.cli.dev.casting import find_agent, loaded_agents
from vivavoce.agents.cli.dev.wire import Message, Speaker
from vivavoce.agents.cli.live.follow import follow
from vivavoce.agents.current_job import required_job
from vivavoce.agents.job import JobContext, JobControl, JobInfo
from vivavoce.agents.records import TurnRecord
from vivavoce.agents.session.session import AgentSession
from vivavoce.agents.session_watch import Conversation, Keep, watch_scope
from vivavoce.agents.states import AgentState, CloseReason, UserState
from vivavoce.agents.worker.executors.executor import Entrypoint
from vivavoce.pipelines.core.errors import ConfigurationError, SessionError, describe

logger = logging.getLogger(__name__)

CLOSE_LIMIT = 2.0
"""Seconds for a session that closes to end its call, or for the next session of the call to begin."""
GO_ON_LIMIT = 60.0
"""Seconds that a new session, when ready, waits for the conversation."""


class RemoteDisplay:
    """A display in the other process."""

    def __init__(self, room: str, speaker: Speaker) -> None:
        self._room = room
        self._speaker = speaker

    def user_state(self, state: UserState) -> None:
        self._show("user_state", state=state.value)

    def agent_state(self, state: AgentState) -> None:
        self._show("agent_state", state=state.value)

    def interim(self, text: str) -> None:
        self._show("interim", text=text)

    def caller_said(self, text: str) -> None:
        self._show("caller_said", text=text)

    def agent_said(self, text: str, *, interrupted: bool) -> None:
        self._show("agent_said", text=text, interrupted=interrupted)

    def tool(self, name: str, arguments: str, output: str, *, is_error: bool) -> None:
        self._show("tool", name=name, arguments=arguments, output=output, is_error=is_error)

    def turn(self, record: TurnRecord) -> None:
        self._show("turn", record=record.to_json())

    def problem(self, text: str) -> None:
        self._show("problem", text=text)

    def call_ended(self, reason: str) -> None:
        self._show("call_ended", reason=reason)

    def _show(self, what: str, **arguments: Any) -> None:
        self._speaker.send("show", room=self._room, shown=what, arguments=arguments)


class Call:
    """One call of this process; the watch over its session.

    Args:
        has_conversation: Whether the first session continues the conversation of another one.
        preview: That conversation at the time of the check whether the new code can continue it; None: unknown.
        agents: The agents of the app's file by name, for a conversation whose agent is not the first one.
    """

    def __init__(
        self,
        room: str,
        speaker: Speaker,
        agents: Mapping[str, type[Agent]],
        *,
        has_conversation: bool = False,
        preview: Conversation | None = None,
    ) -> None:
        self.room = room
        self.has_conversation = has_conversation
        self.session: AgentSession[Any] | None = None
        self.job: JobControl | None = None
        self.is_hung_up = False
        """Whether its session closed because the caller or the room was gone."""
        self._speaker = speaker
        self._agents = agents
        self._preview = preview
        self._display = RemoteDisplay(room, speaker)
        self._coming: Conversation | None = None
        self._came = anyio.Event()
        self._changed = anyio.Event()

    def begin(self, job: JobControl) -> None:
        """The call's job has come. Its callers see an error of its code, unless the old code continues then."""
        self.job = job
        if not self.has_conversation:
            job.show_failure()

    # --- the watch

    @property
    def publishes_turns(self) -> bool:
        """Whether the caller gets turn records: the development page shows them."""
        return True

    def session_begins(self, session: AgentSession[Any]) -> None:
        """A session starts in the job."""
        self.session = session
        follow(session, self._display)
        session.on(events.AgentStateChanged, lambda _: self._changed.set())
        session.on(events.UserStateChanged, lambda _: self._changed.set())
        session.on(events.Closed, self._note_close)
        session.on(events.Started, lambda _: self._speaker.send("resumed", room=self.room))
        if self.has_conversation and self._preview is not None:
            self._cast(session, str(self._preview.get("agent")))

    async def take_over(self, check: Callable[[Conversation], object]) -> Conversation | None:
        """Wait, ready, for the conversation.

        Raises:
            ConfigurationError: The new code cannot continue it.
            SessionError: It did not come.
        """
        self.has_conversation = False
        if self._preview is not None:
            check(self._fitting(self._preview))
        self._speaker.send("ready", room=self.room)
        with anyio.move_on_after(GO_ON_LIMIT):
            await self._came.wait()
            return None if self._coming is None else self._fitting(self._coming)
        raise SessionError(f"the conversation did not come within {GO_ON_LIMIT:g} s")

    def keeper(self, room: str) -> Keep | None:
        """Return None: conversations are handed over, and not kept for a crash."""
        return None

    def go_on(self, conversation: Conversation | None) -> None:
        """The old session has let go: an error of the new code leaves the callers without an agent."""
        if self.job is not None:
            self.job.show_failure()
        self._coming = conversation
        self._came.set()

    def _note_close(self, event: events.Closed) -> None:
        self.is_hung_up = event.report.reason in (CloseReason.PARTICIPANT_LEFT, CloseReason.ROOM_CLOSED)

    def _cast(self, session: AgentSession[Any], name: str) -> None:
        """Have the conversation continue with its own agent, if the app has it and it needs no arguments."""
        if session.agent.id == name:
            return
        try:
            _ = session.update_agent(find_agent(name, loaded_agents(self._agents)))
        except ConfigurationError as error:
            self._display.problem(f"{session.agent.id} continues, not {name}: {error}")

    def _fitting(self, conversation: Conversation) -> Conversation:
        assert self.session is not None
        return {**conversation, "agent": self.session.agent.id}

    # --- handing over

    def preview(self) -> tuple[Conversation | None, str]:
        """Return the present conversation, and the parts of it that cannot move."""
        session = self.session
        if session is None or session.agent_state is AgentState.CLOSED:
            return None, ""
        try:
            return session.snapshot(), ""
        except ConfigurationError as error:
            kept, session.userdata = session.userdata, None
            try:
                return session.snapshot(), f"the new code begins with a userdata of its own: {error}"
            finally:
                session.userdata = kept

    async def show_preview(self) -> None:
        """Report whether the call is over, and its preview."""
        is_over = await self._is_over()
        conversation, problem = self.preview()
        self._speaker.send("preview", room=self.room, conversation=conversation, problem=problem, is_over=is_over)

    async def hand_over(self, quiet_limit: float) -> None:
        """Release the conversation in the next silence, report it, and leave the room without `on_exit`."""
        conversation: Conversation | None = None
        if self.session is not None:
            with anyio.move_on_after(quiet_limit):
                await self._quiet(self.session)
        is_over = await self._is_over()
        session = self.session
        async with anyio.create_task_group() as tasks:
            if session is not None and not _closes(session):
                try:
                    await session.interrupt(force=True)
                    conversation, _ = self.preview()
                    tasks.start_soon(partial(session.close, CloseReason.REPLACED))
                except SessionError as error:  # it has closed by itself meanwhile
                    logger.debug("nothing to hand over: %s", describe(error))
                    is_over = await self._is_over()
            self._speaker.send("handed_over", room=self.room, conversation=conversation, is_over=is_over)
        if self.job is not None:
            self.job.context.shutdown("replaced by new code")

    async def drop(self) -> None:
        """Leave the room without `on_exit`: the call was over before its conversation came."""
        if self.session is not None:
            await self.session.close(CloseReason.REPLACED)
        if self.job is not None:
            self.job.context.shutdown("the call is over")

    async def _is_over(self) -> bool:
        """Return whether the call has ended by itself, or is about to: its session closes, and no other one begins."""
        session, job = self.session, self.job
        if job is None or session is None or not _closes(session):
            return job is not None and bool(job.reason)
        with anyio.move_on_after(CLOSE_LIMIT):
            await job.wait_ended()
        return self.session is session

    async def _quiet(self, session: AgentSession[Any]) -> None:
        while session.agent_state is not AgentState.IDLE or session.user_state is UserState.SPEAKING:
            if _closes(session):
                return
            self._changed = anyio.Event()
            await self._changed.wait()


class Stage:
    """All calls of this process.

    Args:
        entrypoint: The app's entrypoint.
        agents: Its agents by name.
    """

    def __init__(self, entrypoint: Entrypoint, agents: Mapping[str, type[Agent]], speaker: Speaker) -> None:
        self._entrypoint = entrypoint
        self._agents = agents
        self._speaker = speaker
        self._calls: dict[str, Call] = {}

    def expect(self, message: Message) -> None:
        """Expect a job; if `is_takeover`, it continues the conversation of another process."""
        room = message["job"]["room"]
        self._calls[room] = Call(
            room,
            self._speaker,
            self._agents,
            has_conversation=message["is_takeover"],
            preview=message.get("preview"),
        )

    async def entrypoint(self, context: JobContext) -> None:
        """Run the app's entrypoint, watched; the entrypoint of the child's jobs."""
        room = context.job.room
        call = self._calls.get(room)
        if call is None or call.job is not None:
            call = self._calls[room] = Call(room, self._speaker, self._agents)
        call.begin(required_job())
        self._speaker.send("call", room=room, job=plain_job(context.job), is_takeover=call.has_conversation)
        context.add_shutdown_callback(partial(self._over, call))
        try:
            with watch_scope(call):
                await self._entrypoint(context)
        except Exception as error:
            problem = describe(error, quotes_foreign=True)
            self._speaker.send("call_failed", room=room, error=problem, is_hung_up=call.is_hung_up)
            raise
        if call.session is None:  # an app without sessions has nothing to wait for
            self._speaker.send("ready", room=room)
            self._speaker.send("resumed", room=room)

    def _over(self, call: Call) -> None:
        if self._calls.get(call.room) is call:
            del self._calls[call.room]
        self._speaker.send("call_over", room=call.room, is_hung_up=call.is_hung_up)

    def obey(self, message: Message, tasks: TaskGroup) -> None:
        """Carry out a command of the other process for a call; a call that is over has nothing to return."""
        call = self._calls.get(message["room"])
        match message["is"], call:
            case "preview", None:
                self._speaker.send("preview", room=message["room"], conversation=None, problem="", is_over=True)
            case "preview", Call():
                tasks.start_soon(call.show_preview)
            case "hand_over", None:
                self._speaker.send("handed_over", room=message["room"], conversation=None, is_over=True)
            case "hand_over", Call():
                tasks.start_soon(call.hand_over, message["quiet_limit"])
            case "go_on", Call():
                call.go_on(message["conversation"])
            case "drop", Call():
                tasks.start_soon(call.drop)


def _closes(session: AgentSession[Any]) -> bool:
    return session.agent_state in (AgentState.CLOSING, AgentState.CLOSED)


def plain_job(job: JobInfo) -> dict[str, Any]:
    """Return a job as JSON data; `JobInfo(**data)` reverses it."""
    return {
        field.name: dict(value) if isinstance(value := getattr(job, field.name), Mapping) else value
        for field in fields(job)
    }
