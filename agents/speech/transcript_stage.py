"""TranscriptStage: passes the caller's transcripts through the agent's `stt_stage` to the session.

Transcripts of the pipeline's recogniser and of a realtime model take this way. Without a hook they are posted at once.
Otherwise they go to the hook one by one, in a task of the session. Decisions:

* Order stays: what comes after a transcript that the hook still has, waits behind it. Of waiting interims of one
  utterance only the newest is kept.
* No word is lost by a hook that fails: a transcript that it had when it raised, or that it kept for longer than
  `SpeechLimits.stt_stage`, goes on as the recogniser gave it, with an `error` event of source `stt_stage`. The next
  transcript goes to a new run of the hook. A hook that must hide words catches its own errors. The limit holds also
  while a transcript waits for a hook that does not ask for it, before its first read or after its last.
* What waits, or is with a hook, when another recogniser takes over is past (`UserFinal.is_past`), and interims
  and judgements on the turn are dropped then: they are older than its successor's words.
* A run ends with its agent's time: a handoff lets it take what came before, and end within the limit. A hook that then
  reads on and on gets an error.
* The caller's words wait for the hook. So speech, a task, a handoff and a change of the pipeline cannot be awaited
  there: that is a SessionError at once. It may wait for a speech that has the floor; its limit stands still meanwhile.
"""

from __future__ import annotations

import logging
from collections import deque
from collections.abc import AsyncIterator, Iterator
from contextlib import AsyncExitStack, contextmanager
from dataclasses import dataclass, replace
from typing import Any

import anyio
from anyio.lowlevel import checkpoint

from vivavoce.agents.agent import Agent, AgentControl
from vivavoce.agents.core.context import SessionContext
from vivavoce.agents.core.stage_run import StageRun
from vivavoce.agents.speech.stages import Ends, opened_stream
from vivavoce.pipelines.core.errors import StageError, describe
from vivavoce.pipelines.core.watchdog import Watchdog
from vivavoce.pipelines.events import PipelineEvent, RecogniserJudgement, RecogniserReplaced, UserFinal, UserInterim

logger = logging.getLogger(__name__)

COMPONENT = "stt_stage"
_WORDS = (UserFinal, UserInterim)
_ORDERED = UserFinal | UserInterim | RecogniserJudgement | RecogniserReplaced


@dataclass(frozen=True, slots=True)
class _Waiting:
    """An event that waits for the events before it.

    Args:
        agent: The agent whose hook gets it; None for no hook.
        came_at: The time when the recogniser gave it.
        is_past: Whether its recogniser was replaced since.
    """

    event: Any
    agent: Agent | None
    came_at: float
    is_past: bool = False


class TranscriptStage:
    """Takes the events of a pipeline and posts them to the inbox.

    Args:
        limit: Seconds that a hook may keep a transcript.
    """

    def __init__(self, context: SessionContext, *, limit: float) -> None:
        self._context = context
        self._observers = context.stage_observers
        self._limit = limit
        self._waiting: deque[_Waiting] = deque()
        self._news = anyio.Event()
        self._has_task = False
        self._is_busy = False
        """Whether the hook has a transcript that it has not given back."""
        self._given: _Given | None = None
        """The input of the present run of a hook."""

    def take(self, event: PipelineEvent) -> None:
        """Pass on an event of the pipeline in use."""
        if not isinstance(event, _ORDERED):
            self._context.inbox.post(event)  # type: ignore[arg-type]
            return
        agent = self._context.live.agent
        has_hook = isinstance(event, _WORDS) and AgentControl.of(agent).overrides("stt_stage")
        if not has_hook and not self._is_busy and not self._waiting:
            self._post(event)
            return
        newest = self._waiting[-1].event if self._waiting else None
        if isinstance(event, _WORDS) and isinstance(newest, UserInterim) and newest.item_id == event.item_id:
            self._waiting.pop()
        is_past = isinstance(event, UserFinal) and event.is_past
        self._waiting.append(_Waiting(event, agent if has_hook else None, self._context.clock.now(), is_past))
        self._news.set()
        if self._given is not None:
            self._given.note_news()
        if not self._has_task:
            self._has_task = True
            self._context.group.start_soon(self._run, name="the stt_stage of the agent")

    def leave_recogniser(self) -> None:
        """Note that another recogniser hears from now on."""
        self._waiting = deque(replace(one, is_past=True) for one in self._waiting)
        if self._given is not None:
            self._given.leave_recogniser()

    def _post_next(self) -> None:
        """Pass on the event that waits longest."""
        waiting = self._waiting.popleft()
        self._post(waiting.event, waiting)

    def _post(self, event: Any, waited: _Waiting | None = None) -> None:
        """Pass on an event, which came from the hook for `waited`."""
        if waited is not None and isinstance(event, UserFinal):
            is_past = waited.is_past and not event.item_id
            event = replace(event, is_past=is_past, held=self._context.clock.now() - waited.came_at)
        elif waited is not None and waited.is_past and isinstance(event, UserInterim | RecogniserJudgement):
            return
        if isinstance(event, _WORDS) and self._observers.has("stt"):
            self._observers.show("stt", event)
        self._context.inbox.post(event)

    async def _run(self) -> None:
        while True:
            await self._next()
            agent = self._waiting[0].agent
            if agent is None:
                self._post_next()
            else:
                await self._through(agent)

    async def _next(self) -> _Waiting:
        """Wait for an event, and return it without taking it out of the queue."""
        while not self._waiting:
            self._news = anyio.Event()
            await self._news.wait()
        return self._waiting[0]

    async def _through(self, agent: Agent) -> None:
        """Give the hook of `agent` its transcripts, until a transcript of another agent comes, or the hook ends."""
        with anyio.CancelScope() as scope:
            watchdog = Watchdog(self._context.clock, scope.cancel)
            self._given = given = _Given(self, agent, watchdog, self._limit)
            given.note_news()
            error: Exception | None = None
            try:
                await self._read(agent, given)
                if not given.count:
                    error = StageError("the hook ended without reading a transcript", component=COMPONENT)
            except Exception as failure:  # noqa: BLE001 - the user-callback boundary: the words go on without the hook
                error = failure
            finally:
                self._given = None
                watchdog.close()
        self._is_busy = False
        if watchdog.has_expired:
            problem = "kept a transcript" if given.in_hand is not None else "did not ask for the next transcript"
            error = StageError(f"the hook {problem} for {self._limit:g} s", component=COMPONENT)
        if error is None:
            return
        if not isinstance(error, StageError):
            logger.debug("stt_stage failed here", exc_info=error)
            raised, error = error, StageError(f"the hook raised {describe(error)}", component=COMPONENT)
            error.__cause__ = raised
        self._context.report_error(error, COMPONENT, is_recovered=True)
        if given.in_hand is not None:
            self._post(given.in_hand, given.newest)
        elif not given.count:
            self._post_next()

    async def _read(self, agent: Agent, given: _Given) -> None:
        run = StageRun(COMPONENT, "the caller's words", given)
        async with AsyncExitStack() as stack:
            with run.code():
                stream = opened_stream(agent.stt_stage(given), run, stack)
            while True:
                try:
                    async with run.code():
                        event = await anext(stream)
                except StopAsyncIteration:
                    return
                if not isinstance(event, _WORDS):
                    raise StageError(f"needed a transcript, got {type(event).__name__}", component=COMPONENT)
                given.gave_back()
                self._post(event, given.newest)
                await checkpoint()  # a hook that never waits must not hold the loop

    # --- for the hook's iterator

    async def next_of(self, agent: Agent) -> _Waiting | None:
        """Return the next transcript for that agent's hook, or None if the next one is for another agent."""
        self._is_busy = False
        while (waiting := await self._next()).agent is None and isinstance(waiting.event, RecogniserJudgement):
            self._post_next()
        if waiting.agent is not agent:
            return None
        self._is_busy = True
        return self._waiting.popleft()


class _Given(AsyncIterator[Any]):
    """The transcripts given to one run of a hook."""

    def __init__(self, stage: TranscriptStage, agent: Agent, watchdog: Watchdog, limit: float) -> None:
        self._stage = stage
        self._agent = agent
        self._watchdog = watchdog
        self._limit = limit
        self.in_hand: Any | None = None
        """The transcript that the hook has and has not given back."""
        self.count = 0
        self.newest: _Waiting | None = None
        """The transcript that was given last."""
        self._ends = Ends(COMPONENT)
        self._is_asking = False
        """Whether the hook is waiting for the next transcript."""
        self._is_limited = False
        """Whether the limit of the hook counts now."""

    def leave_recogniser(self) -> None:
        """Note that another recogniser hears from now on."""
        if self.newest is not None:
            self.newest = replace(self.newest, is_past=True)

    def gave_back(self) -> None:
        """Note that the hook has yielded."""
        self.in_hand = None

    def __aiter__(self) -> _Given:
        return self

    async def __anext__(self) -> Any:
        self._watchdog.disarm()
        self._is_asking, self._is_limited, self.in_hand = True, False, None
        try:
            waiting = await self._stage.next_of(self._agent)
        finally:
            self._is_asking = False
        self._limit_it()
        if waiting is None:
            await self._ends.note()
            raise StopAsyncIteration
        self.count += 1
        self.newest, self.in_hand = waiting, waiting.event
        return waiting.event

    @contextmanager
    def standing_still(self) -> Iterator[None]:
        """Stop the limit of the hook during the block, which waits for something with a limit of its own."""
        self._watchdog.hold()
        try:
            yield
        finally:
            self._watchdog.release()

    def note_news(self) -> None:
        """Begin the limit of the hook, since a transcript waits."""
        if not self._is_asking and not self._is_limited:
            self._limit_it()

    def _limit_it(self) -> None:
        self._is_limited = True
        self._watchdog.arm(self._limit)
