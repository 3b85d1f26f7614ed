"""SessionContext: the base of all other parts of a session. It is built first and passed down.

No part receives a callback of another part. To report something, a part posts an input (`inbox.post`), notes an event
(`log.note`), reports an error (`report_error`), asks for the close (`closing.request`) or writes the field of `live`
that it owns.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any

import anyio
from anyio import CancelScope
from anyio.abc import TaskGroup

from vivavoce.agents.agent import Agent, AgentControl
from vivavoce.agents.core.caller_hold import CallerHold
from vivavoce.agents.core.done import Done
from vivavoce.agents.core.hooks import Hooks
from vivavoce.agents.core.inbox import Inbox
from vivavoce.agents.core.log import SessionLog
from vivavoce.agents.core.stage_observers import StageObservers
from vivavoce.agents.core.usage import UsageByModel, model_in_use
from vivavoce.agents.records import UsageRecord
from vivavoce.agents.session_type import Session
from vivavoce.agents.states import CloseReason
from vivavoce.agents.telemetry.observer import SessionObserver
from vivavoce.agents.turn.inputs import TurnInput
from vivavoce.agents.turn.options import EndpointingOptions, InterruptionOptions
from vivavoce.pipelines.core.clock import Clock
from vivavoce.pipelines.core.errors import SessionClosedError, SessionError, SessionNotStartedError
from vivavoce.pipelines.core.ids import new_id
from vivavoce.pipelines.io import Transport
from vivavoce.pipelines.llm.tools import Tool
from vivavoce.pipelines.media.frame import AudioFrame
from vivavoce.pipelines.pipeline import PipelineCapabilities, PipelineConnection


@dataclass(frozen=True, slots=True)
class Additions:
    """Instructions and tools that an agent has for now, beside its own. They do not hold for a task."""

    instructions: str = ""
    tools: tuple[Tool[..., Any], ...] = ()


NO_ADDITIONS = Additions()
_ENDPOINTING, _INTERRUPTION = EndpointingOptions(), InterruptionOptions()
"""Until `TurnTaking` has written those of the session."""


class Live:
    """The parts of a session that change while it runs. Each field has one writer, named beside it."""

    __slots__ = (
        "_connection",
        "additions",
        "agent",
        "capabilities",
        "endpointing",
        "hear",
        "interruption",
        "is_shown",
        "late",
        "transport",
    )

    def __init__(self, agent: Agent, capabilities: PipelineCapabilities) -> None:
        self.agent = agent
        """The agent that has the conversation. Writer: `SessionAgents`."""
        self.additions = NO_ADDITIONS
        """Instructions and tools that extensions give the agent for now. Writer: `Attachments`."""
        self.endpointing = _ENDPOINTING
        """When a pause ends the caller's turn, for that agent. Writer: `TurnTaking`."""
        self.interruption = _INTERRUPTION
        """When the caller takes the floor from it. Writer: `TurnTaking`."""
        self.capabilities = capabilities
        """Capabilities of the pipeline in use. Writer: `PipelineSwitch`."""
        self.is_shown = False
        """Whether the pipeline is shown the caller's video. Writer: `Seeing`."""
        self.transport: Transport | None = None
        """The session's way to its caller, from when the start has connected it. Writer: `Caller`."""
        self.hear: Callable[[AudioFrame], None] | None = None
        """Takes each frame of the caller; None until a pipeline is open. Writer: `KeptAudio`."""
        self.late = 0.0
        """Seconds since the end of the frame was said that the pipeline is hearing right now. Writer: `Caller`."""
        self._connection: PipelineConnection | None = None

    @property
    def instructions(self) -> str:
        """The instructions for the model now."""
        given = (self.agent.instructions, self._added.instructions)
        return "\n\n".join(part for part in given if part)

    @property
    def tools(self) -> tuple[Tool[..., Any], ...]:
        """The tools of the model now; an added one replaces the agent's of the same name."""
        added = self._added.tools
        if not added:
            return self.agent.tools
        names = {tool.name for tool in added}
        return (*(tool for tool in self.agent.tools if tool.name not in names), *added)

    @property
    def _added(self) -> Additions:
        return NO_ADDITIONS if AgentControl.of(self.agent).is_task else self.additions

    @property
    def connection(self) -> PipelineConnection:
        """The connection of the pipeline in use. Writer: `PipelineSwitch`.

        Raises:
            SessionNotStartedError: No pipeline has been opened yet.
        """
        if self._connection is None:
            raise SessionNotStartedError("the session's pipeline is not open yet; call this from on_enter on")
        return self._connection

    @connection.setter
    def connection(self, connection: PipelineConnection) -> None:
        self._connection = connection

    @property
    def is_connected(self) -> bool:
        """Whether a pipeline has been opened."""
        return self._connection is not None


class Closing:
    """The one close of a session: whether it was asked for, why, and whether it is over."""

    def __init__(self) -> None:
        self.reason = CloseReason.USER_INITIATED
        """The reason of the first request."""
        self.cause: Exception | None = None
        """The error that led to it, if one did."""
        self.leaves = False
        """Whether the session leaves its room too."""
        self.asked = anyio.Event()
        """Set when the close was asked for."""
        self.ended = Done()
        """Set when the close is done. Code that ignores its cancellation may still run."""
        self.heard_out = anyio.Event()
        """Set when the user's last words have come, or are waited for no more."""
        self.accepts_calls = True
        """Off once `on_exit` is done: the session takes no more calls."""
        self._scopes: list[CancelScope] = []
        self._errors: list[Exception] | None = None
        self._tries_end: float | None = None

    @property
    def is_asked(self) -> bool:
        """Whether the close was asked for."""
        return self.asked.is_set()

    @property
    def is_over(self) -> bool:
        return self.ended.is_set()

    def request(self, reason: CloseReason, cause: Exception | None = None, *, leaves: bool = False) -> None:
        """Ask for the close. The first reason counts. Synchronous; call it on the session's event loop."""
        if self.asked.is_set():
            self.leaves = self.leaves or leaves
            return
        self.reason, self.cause, self.leaves = reason, cause, leaves
        self.asked.set()
        for scope in self._scopes:
            scope.cancel()

    def begin(self) -> None:
        """Keep errors for the steps of the close from now on. Caller: `CloseSequence`."""
        self._errors = []

    def note(self, error: Exception) -> None:
        """Blame the running step of the close for an error that a part reports; without effect before the steps."""
        if self._errors is not None:
            self._errors.append(error)

    def take_errors(self) -> list[Exception]:
        """Return the errors noted since the last call, for the step that ends. Caller: `CloseSequence`."""
        errors, self._errors = self._errors, []
        assert errors is not None, "begin() comes first"
        return errors

    def tries_end(self, at: float) -> float:
        """Return when writes that fail are made again no more: `at` of the first queue to close, for all queues."""
        if self._tries_end is None:
            self._tries_end = at
        return self._tries_end

    def refuse_calls(self) -> None:
        """Take no more calls: `on_exit` is done."""
        self.accepts_calls = False

    def cuts(self, scope: CancelScope) -> CancelScope:
        """Have the request cancel `scope`, at once if the close was asked for already; return it."""
        self._scopes.append(scope)
        if self.asked.is_set():
            scope.cancel()
        return scope


class SessionContext:
    """The parts of a session that every other part is given.

    Args:
        session: The session as the application knows it, to be handed to the application's code.
        session_id: For records and logs; None: one is made.
        agent, capabilities: The agent and the pipeline that the session begins with.
        userdata: The application's own data.
        limit: Seconds for one run of an async event handler, or of an observer of a stage.
    """

    def __init__(
        self,
        session: Session,
        session_id: str | None,
        clock: Clock,
        agent: Agent,
        capabilities: PipelineCapabilities,
        userdata: object = None,
        *,
        limit: float,
    ) -> None:
        self.session = session
        self.id = session_id = session_id or new_id("session")
        self.userdata: Any = userdata
        self.clock = clock
        self.inbox = Inbox(clock)
        self.log = SessionLog(session_id, clock, self.inbox, callback_timeout=limit)
        self.live = Live(agent, capabilities)
        self.closing = Closing()
        self.hold = CallerHold()
        self.usage = UsageByModel()
        """The usage of each model, with estimates of the tokens that a model has not reported."""
        self.stage_observers = StageObservers(self.hooks, lambda: self.group, limit=limit)
        self._group: TaskGroup | None = None

    def start(self, observer: SessionObserver, *, room: str, job_id: str) -> None:
        """Start on the running event loop, in that room and job; `observer` watches from now on."""
        self.log.start(observer, room=room, job_id=job_id)
        self.inbox.bind()

    def set_userdata(self, userdata: object) -> None:
        """Set the application's own data."""
        self.userdata = userdata

    def open(self, group: TaskGroup) -> None:
        """Let the parts begin tasks in `group`, the session's own."""
        self._group = group
        self.log.open(group)

    @property
    def group(self) -> TaskGroup:
        assert self._group is not None, "the session's task opens the context before anything begins a task"
        return self._group

    @property
    def observer(self) -> SessionObserver:
        """The telemetry of the session; one that does nothing before `start()`."""
        return self.log.observer

    @property
    def hooks(self) -> Hooks:
        return self.log.hooks

    def report_error(self, error: Exception, source: str, *, is_recovered: bool = False) -> None:
        """Note an `error` event."""
        self.log.report_error(error, source, is_recovered=is_recovered)

    def report_cancelled(self, source: str) -> None:
        """Report that code of the application has cancelled the task of that name.

        Nothing is reported in a close: at its end an event loop cancels all tasks, and the session closes.
        """
        if not self.closing.is_asked:
            self.report_error(SessionError(f"code of the application has cancelled the task of the {source}"), source)

    def add_usage(self, used: UsageRecord, kind: str, made_by: str = "") -> None:
        """Add to the usage of the session, and to that of the model.

        Args:
            kind: The component: `stt`, `llm` (a realtime model too), `tts` or `embedder`.
            made_by: Provider and model, where they are not those of the pipeline in use.
        """
        self.log.add_usage(used)
        if model := made_by or model_in_use(self.session.pipeline, kind):
            self.usage.add(model, used)

    @property
    def is_unstarted(self) -> bool:
        """Whether the session was neither started nor closed."""
        return not self.inbox.is_bound and not self.closing.is_over

    def check_open(self) -> None:
        """Check that the session takes calls.

        Raises:
            SessionNotStartedError, SessionClosedError: It does not.
        """
        if self.is_unstarted:
            raise SessionNotStartedError("the session was not started; call start() first")
        self.check_not_closed()

    def check_here(self, call: str) -> None:
        """Check that the calling task is on the session's event loop, on which `call` begins tasks.

        Raises:
            SessionError: It is on another one.
        """
        if not self.inbox.is_own_loop:
            raise SessionError(f"{call} is awaited on the session's event loop; this code runs on another one")

    def check_not_closed(self) -> None:
        """Check that the session takes calls, or will after its start.

        Raises:
            SessionClosedError: It is closed.
        """
        if self.closing.is_over or not self.closing.accepts_calls:
            raise SessionClosedError("the session is closed; make another one")

    def check_may_await_close(self) -> None:
        """Check that the calling task may wait for the close.

        Raises:
            SessionError: The close waits for it.
            SessionClosedError: The event loop has ended, and the session was not closed before.
        """
        self.hooks.check_may_await_close()
        if not self.closing.is_over:
            self.inbox.check_running()

    def request_close(self, reason: CloseReason, *, leaves: bool) -> None:
        """Ask for the close, from any event loop and thread; once the session is closed, nothing happens.

        Raises:
            SessionClosedError: The event loop has ended.
        """
        if not self.closing.is_over:
            self.inbox.on_loop(partial(self.closing.request, reason, leaves=leaves))

    def post(self, event: TurnInput) -> None:
        """Post an input that the application gives; raises as `check_open`."""
        self.check_open()
        self.inbox.post(event)
