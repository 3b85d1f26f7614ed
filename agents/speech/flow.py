"""ConversationFlow: an application's own text source for the answers to the caller, in place of the model.

What a flow yields takes the path of a model's text: spoken by sentences while it comes, cut by interruptions, kept in
the history as far as it was heard. What was decided here:

* The session calls `on_turn_start`, `run` and `on_turn_end`, in that order, and never two turns of one flow at a time.
  `on_turn_end` follows each `on_turn_start` once, when the turn has its outcome and its record is in `session.turns`.
* `run` keeps the model's limits: `llm_first_token` until the first text, `llm_stall` between texts, so that a flow that
  hangs ends its turn `failed`. `on_turn_start`, `on_turn_end` and `cleanup` may take `hook_timeout`. Those of `run` and
  `on_turn_start` stand still while speech that they asked for goes on.
* A flow answers what the caller says. `session.reply(...)` and the results of tools that ended late are still the
  model's, if the pipeline has one. A flow's text has no tool calls, and no answer is begun before the turn is over.
"""

from __future__ import annotations

import inspect
import logging
from abc import ABC, abstractmethod
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable
from contextvars import ContextVar
from functools import cached_property, partial

import anyio
from anyio.abc import TaskGroup
from anyio.lowlevel import checkpoint

from vivavoce.agents.agent import Membership, Session
from vivavoce.agents.core.speech_handle import SpeechHandle
from vivavoce.agents.speech.turn_hook import TurnHook
from vivavoce.pipelines.core.checks import awaited
from vivavoce.pipelines.core.errors import (
    ConfigurationError,
    SessionError,
    located,
)
from vivavoce.pipelines.core.stray_cancellation import strays_as_errors
from vivavoce.pipelines.llm.base import TextDelta

logger = logging.getLogger(__name__)


class ConversationFlow(ABC):
    """Subclass it and give it to the session: `run` answers each turn of the caller."""

    @cached_property
    def _control(self) -> FlowControl:
        return FlowControl("flow", lambda: "the conversation flow")

    @property
    def session(self) -> Session:
        """The session that this flow answers in: its agent, history and userdata, and `say`, `update_agent`, `close`.

        Raises:
            SessionNotStartedError: The flow is in no session.
            SessionClosedError: The flow is no longer in its session.
        """
        return FlowControl.of(self).session

    @abstractmethod
    def run(self, transcript: str) -> AsyncIterator[str]:
        """Yield the answer to what the caller said, piece by piece; usually an async generator.

        It is closed in mid-answer when the caller interrupts. `session.say()` may be awaited here: it is heard after
        the text that was yielded before it.
        """

    async def on_turn_start(self, transcript: str) -> None:
        """A turn of the caller is over and is about to be answered."""

    async def on_turn_end(self) -> None:
        """That answer has been played, cut or dropped, or has failed; how, says `session.turns[-1]`."""

    async def cleanup(self) -> None:
        """The flow is of no more use: the session closes, or has another one. Called once."""


class FlowControl(Membership):
    """The session's side of a conversation flow: which session it serves."""

    @staticmethod
    def of(flow: ConversationFlow) -> FlowControl:
        """Return the control of that flow, made on first use: a subclass need not call a constructor."""
        return flow._control


class _Held:
    """A flow that the session has, or had: its turn, and whether it is cleaned up."""

    def __init__(self, flow: ConversationFlow) -> None:
        self.flow = flow
        self.turns = 0
        self.idle = anyio.Event()
        self.idle.set()
        self.cleaned: anyio.Event | None = None

    @property
    def is_clean(self) -> bool:
        return self.cleaned is not None and self.cleaned.is_set()

    def begin(self) -> None:
        self.turns += 1
        self.idle = anyio.Event()

    def end(self) -> None:
        self.turns -= 1
        if not self.turns:
            self.idle.set()


class FlowRunner:
    """Runs the turns of the session's flow, and cleans up each flow that it has had, once.

    Args:
        limit: Seconds for each of a flow's hooks.
        report_error: Told of what they raise.
    """

    def __init__(self, *, limit: float, report_error: Callable[[Exception, str], None]) -> None:
        self._limit = limit
        self._report_error = report_error
        self._group: TaskGroup | None = None
        self._session: Session | None = None
        self._current: _Held | None = None
        self._all: list[_Held] = []
        self._hooks: set[anyio.CancelScope] = set()

    @property
    def flow(self) -> ConversationFlow | None:
        """What answers the caller's next turn; None: the model."""
        return None if self._current is None else self._current.flow

    def begin_session(self, session: Session) -> None:
        """The session starts.

        Raises:
            SessionError: The flow is in another session.
        """
        given, self._all, self._session = self._all, [], session
        for held in given:  # one that serves another session is none of this one's to clean up
            try:
                FlowControl.of(held.flow).attach(session)
            except SessionError:
                if held is self._current:
                    raise
            else:
                self._all.append(held)

    def open(self, group: TaskGroup) -> None:
        """Let hooks run in `group`."""
        self._group = group
        for held in self._all:
            if held is not self._current:
                self._retire(held)

    def set(self, flow: ConversationFlow | None) -> None:
        """From the next turn on `flow` answers; the one before is cleaned up when its turn is over."""
        old = self._current
        if (None if old is None else old.flow) is flow:
            return
        again = next((held for held in self._all if held.flow is flow and held.cleaned is None), None)
        self._current = again if flow is None or again is not None else _Held(flow)
        if self._current is not None and self._current is not again:
            self._all.append(self._current)
            if self._session is not None:
                FlowControl.of(self._current.flow).attach(self._session)
        if old is not None and self._group is not None:
            self._retire(old)

    async def begin_turn(self, handle: SpeechHandle, transcript: str) -> AsyncGenerator[TextDelta, None]:
        """Begin a turn that the speech of `handle` answers, and return its text."""
        held = self._current
        assert held is not None
        with anyio.move_on_after(self._limit):
            await held.idle.wait()
        held.begin()
        handle.add_done_callback(lambda _: self._turn_ended(held))
        hook = TurnHook(handle, self._limit)
        await self._call("on_turn_start", lambda: held.flow.on_turn_start(transcript), hook)
        return _text_of(held.flow, transcript)

    def _turn_ended(self, held: _Held) -> None:
        if self._group is None or held.cleaned is not None:
            held.end()
        else:
            self._group.start_soon(self._end_turn, held, name="on_turn_end")

    async def _end_turn(self, held: _Held) -> None:
        try:
            await self._call("on_turn_end", held.flow.on_turn_end)
        finally:
            held.end()

    async def _call(self, name: str, hook: Callable[[], Awaitable[None]], turn: TurnHook | None = None) -> None:
        scope = anyio.CancelScope()  # cut where the hook waits for the close
        token = _running_hook.set(scope)
        if turn is None:  # a hook of a turn ends with its speech, which the close cuts anyhow
            self._hooks.add(scope)
        try:
            limit = anyio.fail_after(self._limit) if turn is None else turn.running()
            with scope, limit, strays_as_errors(f"{name} of the conversation flow"):
                await awaited(f"{name} of a conversation flow", hook())
        except Exception as error:  # noqa: BLE001 - a user callback: the conversation goes on without it
            logger.warning("%s of the conversation flow failed: %s", name, located(error))
            logger.debug("%s of the conversation flow failed here", name, exc_info=error)
            self._report_error(error, "hook")
        finally:
            self._hooks.discard(scope)
            _running_hook.reset(token)

    # --- the end of a flow

    def _retire(self, held: _Held) -> None:
        async def retire() -> None:
            while held.turns:  # a turn that waited for the one before it may have begun
                await held.idle.wait()
            if held.cleaned is None and held is not self._current:
                await self._call("cleanup", lambda: self._clean(held))

        assert self._group is not None
        self._group.start_soon(retire, name="conversation_flow.cleanup")

    async def _clean(self, held: _Held) -> None:
        held.cleaned = anyio.Event()
        try:
            with strays_as_errors("cleanup of the conversation flow"):
                await awaited("cleanup of a conversation flow", held.flow.cleanup())
        finally:
            held.cleaned.set()
            if self._session is not None and (self._current is held or self.flow is not held.flow):
                FlowControl.of(held.flow).detach(self._session)  # not if it was taken again meanwhile
            if self._current is not held:
                self._all.remove(held)

    @property
    def has_work(self) -> bool:
        """Whether any flow is not cleaned up."""
        return self._session is not None and any(not held.is_clean for held in self._all)

    def cleanups(self) -> list[Callable[[], Awaitable[None]]]:
        """Return, for each flow that is not cleaned up, what waits for the end of its turn and does it."""
        return [partial(self._cleanup, held) for held in self._all if not held.is_clean]

    async def _cleanup(self, held: _Held) -> None:
        await held.idle.wait()
        if held.cleaned is None:
            await self._clean(held)
        else:
            await held.cleaned.wait()

    def awaits_close(self) -> None:
        """The calling code waits for the close: a hook of a flow must not, since the close waits for it."""
        hook = _running_hook.get()
        if hook is not None and hook in self._hooks:
            hook.cancel()


_running_hook: ContextVar[anyio.CancelScope | None] = ContextVar("running_flow_hook", default=None)
"""In a flow's hook, and in what it starts, what cancels it."""


async def _text_of(flow: ConversationFlow, transcript: str) -> AsyncGenerator[TextDelta, None]:
    pieces = flow.run(transcript)
    if inspect.isawaitable(pieces):  # a coroutine function that returns an iterator
        pieces = await pieces
    try:
        async for piece in pieces:
            if not isinstance(piece, str):
                raise ConfigurationError(f"a flow's run() must yield str, got {type(piece).__name__}; yield its text")
            if piece:
                yield TextDelta(piece)
            await checkpoint()  # a flow that never waits must not hold the loop
    finally:
        aclose = getattr(pieces, "aclose", None)
        if aclose is not None:
            await aclose()
