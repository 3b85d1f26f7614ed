"""PipelineSwitch: the session's pipeline, and `change_pipeline()`, by which the call goes on with another one.

How a change goes:

1. The new pipeline is opened beside the present one, which hears and speaks on. A realtime model is told the history.
2. When no user turn is open and nobody speaks, the turn machine lets it take over, in one step of the session's loop:
   no frame of the caller is lost in between, and the new one is given the last half second too, so that it hears the
   onset of what the old one has not noticed yet. What the history got meanwhile, it is told then.
3. The old one is closed in the background, within a limit; until then it may still tell the words of turns that it has
   heard.

What was decided here:

* A change cuts nothing: who has heard a turn answers it. Speeches that wait for their tools, and those asked for after
  the new pipeline was ready, go on with the new one.
* Changes do not overlap: one asked for during another follows it. A change to the pipeline in use does nothing.
* If the new pipeline cannot be opened, or no moment comes in time, the session goes on as before: the outcome is
  `failed`, and there is an `error` event.
* A pipeline that is lost for good (`PipelineFailed` that was not recovered) ends the session, unless it has a
  `fallback`, or a change is under way: then that one takes over at once. What the caller has said and nobody has
  understood is given to it, up to ten seconds. The present answer fails, as every one does whose model is lost; words
  that are known, and of whose answer nothing was heard, are answered by the new one.
"""

from __future__ import annotations

import logging
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Literal

import anyio

from vivavoce.agents import events as ev
from vivavoce.agents.core.context import SessionContext
from vivavoce.agents.history.history import HistoryControl
from vivavoce.agents.records import ComponentRecord
from vivavoce.agents.session.options import SessionOptions
from vivavoce.agents.session.pipelines.attached import AttachedPipeline
from vivavoce.agents.session.pipelines.change import PipelineChangeControl
from vivavoce.agents.session.pipelines.place import EARS, Ears, PipelinePlace
from vivavoce.agents.session.pipelines.reports import PipelineReports
from vivavoce.agents.session.wiring import check_flow, check_turns, check_wiring, turn_traits
from vivavoce.agents.speech.flow import ConversationFlow
from vivavoce.agents.states import CloseReason
from vivavoce.agents.turn import inputs as i
from vivavoce.pipelines.core.checks import check_number
from vivavoce.pipelines.core.errors import SessionError, describe, located
from vivavoce.pipelines.core.incidents import passed_over
from vivavoce.pipelines.core.owned_call import OwnedCall
from vivavoce.pipelines.core.stray_cancellation import strays_as_errors
from vivavoce.pipelines.events import (
    AgentTranscript,
    PipelineFailed,
    PipelineUsage,
    RemoteReplyStarted,
    UserFinal,
    UserSpeechEnded,
    UserSpeechStarted,
    UserVoicePaused,
    UserVoiceResumed,
)
from vivavoce.pipelines.llm.chat_context import ChatMessage
from vivavoce.pipelines.media.buffer import RecentFrames
from vivavoce.pipelines.media.frame import AudioFrame
from vivavoce.pipelines.pipeline import Pipeline, PipelineCapabilities, PipelineContext, PipelineEvent

logger = logging.getLogger(__name__)

ONSET_SECONDS = 0.5
"""Audio before the change that the new pipeline is given too."""
LOST_SECONDS = 10.0
"""Audio that is kept for the pipeline that takes the place of a lost one."""
LATE_WORDS = 1.0
"""Seconds in which a pipeline that was left may still tell the words of turns that it has heard."""
CLOSE_LIMIT = 5.0
"""Seconds that closing it may take."""
FALLBACK_WITHIN = 5.0
"""Seconds for which a fallback lets what is still heard without the lost pipeline come to its end."""

DropReason = Literal["closed", "withdrawn", "no_moment"]


@dataclass(slots=True, eq=False)
class _Run:
    """A change that is under way."""

    change: PipelineChangeControl
    line: AttachedPipeline | None = None
    is_asked: bool = False
    """Whether the turn machine was told that the new pipeline is ready."""
    reason: DropReason | None = None
    """Why nothing comes of it."""
    decided: anyio.Event = field(default_factory=anyio.Event)
    scope: anyio.CancelScope = field(default_factory=anyio.CancelScope)


class PipelineSwitch:
    """Opens, changes and closes pipelines for one session.

    Args:
        pipeline: The first one.
    """

    def __init__(
        self, context: SessionContext, pipeline: Pipeline, history: HistoryControl, *, options: SessionOptions
    ) -> None:
        self.pipeline = pipeline
        self._context = context
        self._options = options
        self._history = history
        self._reports = PipelineReports(context, history)
        self._in: PipelinePlace | None = None
        self._line: AttachedPipeline | None = None
        self._leaving: list[AttachedPipeline] = []
        self._waiting: deque[PipelineChangeControl] = deque()
        self._run: _Run | None = None
        self._kept: RecentFrames | None = None
        self._is_deaf = False
        """Whether what hears the caller is lost with the pipeline in use."""
        self._behind = 0.0
        """Seconds of kept audio that follow the frame that the new pipeline is given."""
        self._is_closing = False
        self.on_closing_error: Callable[[Exception], None] | None = None
        """Told, while the session closes, of what a pipeline reports as broken."""

    @property
    def _place(self) -> PipelinePlace:
        assert self._in is not None, "the room is used before open()"
        return self._in

    @property
    def to_come(self) -> list[Pipeline]:
        """Those that were asked for and do not serve yet."""
        running = [] if self._run is None or self._run.decided.is_set() else [self._run.change.pipeline]
        return [*running, *(change.pipeline for change in self._waiting)]

    # --- start

    def open(
        self,
        *,
        step: Callable[[i.TurnInput], None],
        answer_last_turn: Callable[[], None],
        ears: Ears,
        input_rate: int,
    ) -> None:
        """Make the first pipeline's connection, which `start()` connects.

        Args:
            step: Has the turn machine take an input at once, before the inbox.
            answer_last_turn: Has the model answer the last turn; called where the pipeline before was lost over it.
        Raises:
            ConfigurationError: The pipeline is attached to a session already.
        """
        self._in = PipelinePlace(step, answer_last_turn, ears, input_rate)
        self._line = line = self._make(self.pipeline)
        self._context.live.connection = line.connection
        if self._waiting:
            self._context.inbox.call(self._next)

    async def start(self, limit: float) -> None:
        """Connect the first pipeline, or what it falls back to.

        Raises:
            SessionError: It is not ready within `limit` seconds.
            VoiceError: Whatever it raised itself.
        """
        line = self._line
        assert line is not None
        while True:
            try:
                return await line.start(self._context.group, limit)
            except Exception as error:  # noqa: BLE001 - whatever keeps it from being opened, the fallback may do
                if (fallback := line.pipeline.fallback) is None:
                    raise
                line.failure = error
                _tell_passed_over(line.capabilities, error)
                self._context.report_error(error, "pipeline", is_recovered=True)
            line = self._make(fallback)
            self._run = run = _Run(PipelineChangeControl(fallback, is_urgent=True), line)
            self._is_deaf = True
            self._ask(run, self._place.step)
            self._place.step(i.PipelineChangeDue())
            self._run = None

    # --- changes, on the session's loop

    def wanted(self, pipeline: Pipeline, within: float, flow: ConversationFlow | None) -> PipelineChangeControl:
        """Return a change to that pipeline, to be requested.

        Raises:
            ConfigurationError: It is no pipeline, or `within` is no wait.
            CapabilityError: It can neither speak nor answer, or does not go with the session's flow or options.
        """
        check_wiring(self._context.live.agent, pipeline)
        check_flow(flow, pipeline)
        check_turns(self._options, pipeline)
        check_number("within", within, above=0, unit="s")
        return PipelineChangeControl(pipeline, within)

    def request(self, change: PipelineChangeControl) -> None:
        """Have that pipeline take over, in its turn."""
        if self._is_closing:
            change.set_outcome("cancelled")
            return
        self._waiting.append(change)
        if self._in is not None:
            self._context.inbox.call(self._next)

    def _next(self) -> None:
        if self._run is None and self._waiting and not self._is_closing:
            self._run = run = _Run(self._waiting.popleft())
            self._context.group.start_soon(self._carry_out, run, name=f"change to {run.change.pipeline.name}")

    async def _carry_out(self, run: _Run) -> None:
        change = run.change
        try:
            with run.scope, strays_as_errors("the change of the pipeline"):
                await self._change(run)
        except Exception as error:  # noqa: BLE001 - a provider that cannot be had leaves the session as it was
            logger.warning("The change to the %s pipeline failed: %s", change.pipeline.name, located(error))
            logger.debug("The change failed here", exc_info=error)
            change.set_outcome("failed", error)
            is_recovered = self._line is not None and self._line.failure is None
            self._context.report_error(error, "pipeline", is_recovered=is_recovered)
        finally:
            self._run = None
            if run.line is not None and run.line is not self._line:
                self._leave(run.line, linger=0.0)
            change.set_outcome("cancelled")
            self._context.inbox.call(partial(self._go_on, run))

    async def _change(self, run: _Run) -> None:
        change = run.change
        if change.pipeline is self.pipeline:
            logger.info("The %s pipeline is in use already; nothing changes", self.pipeline.name)
            change.set_outcome("completed")
            return
        old, new = self.pipeline.name, change.pipeline.name
        with self._context.observer.hook("pipeline_change", old=old, new=new) as watch:
            try:
                for line in self._leaving:
                    if line.pipeline is change.pipeline:
                        line.leaves.set()
                        await line.ended.wait()  # bounded by CLOSE_LIMIT
                begins_at = self._context.clock.now() + ONSET_SECONDS
                if self._kept is None:
                    self._keep(ONSET_SECONDS)
                run.line = self._make(change.pipeline)
                await run.line.start(self._context.group, self._options.start_step, prepares=True)
                if not change.is_urgent:
                    await anyio.sleep(max(0.0, begins_at - self._context.clock.now()))
                self._ask(run, self._context.inbox.post)
                await run.decided.wait()  # within `change.within`, by the turn machine
                if (error := self._why_not(run)) is not None:
                    raise error
            except Exception as error:
                watch.failed(error)
                raise
        if run.line is self._line:
            change.set_outcome("completed")

    def _ask(self, run: _Run, tell: Callable[[i.TurnInput], None]) -> None:
        assert run.line is not None
        run.is_asked, change = True, run.change
        traits = turn_traits(self._options, run.line.capabilities)
        within = FALLBACK_WITHIN if change.is_urgent else change.within
        urgent, deaf = change.is_urgent, change.is_urgent and self._is_deaf
        tell(i.PipelineChangeRequested(change_id=change.id, within=within, is_urgent=urgent, is_deaf=deaf, **traits))

    def _why_not(self, run: _Run) -> Exception | None:
        if run.reason == "no_moment":
            return SessionError(f"no moment came within {run.change.within:g} s in which nobody spoke")
        return None if run.line is None or run.reason != "withdrawn" else run.line.failure

    def _go_on(self, run: _Run) -> None:
        """A change is over: listen as before if nothing came of it, and begin the next one."""
        line, change = self._line, run.change
        assert line is not None
        if self._kept is not None and line.failure is None:
            self._kept = None
            self._place.ears.hear_by(line.connection.push_audio)
        if line.failure is not None and not self._is_closing:
            self._replace_lost(line.failure, but=change.pipeline)
        self._next()

    # --- effects

    def take(self, change_id: str) -> None:
        """Nobody speaks: from here on the new pipeline serves."""
        run, old, place = self._run, self._line, self._place
        if run is None or run.change.id != change_id or run.line is None or old is None:
            return
        self._line = new = run.line
        self._is_deaf = new.failure is not None
        self.pipeline, self._context.live.capabilities = new.pipeline, new.capabilities
        new.bring_up_to_date(self._context.live.agent)
        self._context.live.connection = new.connection
        if old.failure is not None and self._is_unanswered:
            place.answer_last_turn()
        parts = tuple(ComponentRecord(*part) for part in new.capabilities.components)
        self._context.log.note(ev.PipelineChanged, old=old.pipeline.name, pipeline=new.pipeline.name, components=parts)
        logger.info("The session went from the %s to the %s pipeline", old.pipeline.name, new.pipeline.name)
        kept, self._kept = self._kept, None
        place.ears.hear_by(new.connection.push_audio)
        frames = [] if kept is None else kept.drain()
        self._behind = sum(frame.duration for frame in frames)
        for frame in frames:
            self._behind -= frame.duration
            new.connection.push_audio(frame)
        self._behind = 0.0
        self._leave(old, linger=0.0 if old.failure is not None else LATE_WORDS)
        run.decided.set()
        if new.failure is not None:
            self._context.inbox.call(partial(self._lose, new, new.failure))

    @property
    def _is_unanswered(self) -> bool:
        """Whether the last turn's words are known and nothing of an answer was heard."""
        turns, items = self._context.log.turns, self._history.items
        if not (turns and items) or turns[-1].kind != "turn" or turns[-1].outcome != "failed" or turns[-1].heard_text:
            return False
        last = items[-1]
        if not isinstance(last, ChatMessage) or last.role != "user" or last.turn_id != turns[-1].turn_id:
            return False
        return last.content != ""

    def drop(self, change_id: str, reason: DropReason) -> None:
        """The turn machine does not wait for that change's moment any more."""
        run = self._run
        if run is not None and run.change.id == change_id:
            run.reason = reason
            run.decided.set()

    # --- what pipelines tell

    def _on_event(self, line: AttachedPipeline, event: PipelineEvent) -> None:
        if isinstance(event, PipelineFailed):
            if self.on_closing_error is not None:
                self.on_closing_error(event.error)
            self._context.inbox.call(partial(self._on_failed, line, event))
        elif line is self._line or isinstance(event, PipelineUsage):
            if isinstance(event, UserSpeechStarted | UserSpeechEnded | UserVoicePaused | UserVoiceResumed):
                event = replace(event, at=event.at - self._behind)
            self._reports.take(event)
        elif isinstance(event, RemoteReplyStarted):
            line.connection.refuse(event.remote_reply_id)
        elif isinstance(event, AgentTranscript) or (isinstance(event, UserFinal) and event.item_id):
            self._reports.take(event)

    def _on_crash(self, line: AttachedPipeline, error: Exception) -> None:
        logger.error("The pipeline ended by an error: %s", describe(error))
        logger.debug("The pipeline ended by an error", exc_info=error)
        self._context.inbox.call(partial(self._on_failed, line, PipelineFailed(error, False, "pipeline")))

    def _on_failed(self, line: AttachedPipeline, event: PipelineFailed) -> None:
        is_in_use = line is self._line
        goes_on = event.recovered or not is_in_use or bool(self.pipeline.fallback or self.to_come)
        self._context.report_error(event.error, event.component or "pipeline", is_recovered=goes_on)
        if event.recovered:
            return
        line.failure = event.error
        if is_in_use:
            self._is_deaf = self._is_deaf or self._context.live.capabilities.hears_audio or event.component in EARS
            self._lose(line, event.error, event.unheard)
        elif self._run is not None and line is self._run.line:
            self._context.inbox.post(i.PipelineChangeWithdrawn(self._run.change.id))

    def _lose(self, line: AttachedPipeline, error: Exception, unheard: Sequence[AudioFrame] = ()) -> None:
        """The pipeline in use is lost for good."""
        if self._is_closing or line is not self._line:
            return
        if self._is_deaf:  # else what hears is not what was lost
            kept, self._kept = self._kept, self._keep(LOST_SECONDS)
            for frame in [*unheard, *(kept.drain() if kept is not None else ())]:
                self._kept.push(frame)
        if self._run is None:
            self._replace_lost(error)
            self._next()
        elif not self._run.decided.is_set():  # else `_go_on`, which comes next, sees the loss
            self._run.change.is_urgent = True
            if self._run.is_asked:
                self._ask(self._run, self._context.inbox.post)

    def _replace_lost(self, error: Exception, *, but: Pipeline | None = None) -> None:
        fallback = self.pipeline.fallback
        if not self._waiting and fallback is not None and fallback is not but:
            self._waiting.append(PipelineChangeControl(fallback))
            _tell_passed_over(self._context.live.capabilities, error)
        if not self._waiting:
            self._context.closing.request(CloseReason.ERROR, error)
            return
        self._waiting[0].is_urgent = True

    def _keep(self, seconds: float) -> RecentFrames:
        line = self._line
        assert line is not None
        self._kept = kept = RecentFrames(seconds)
        self._place.ears.hear_by(kept.push if self._is_deaf else partial(_both, kept.push, line.connection.push_audio))
        return kept

    # --- the end

    def close(self) -> None:
        """The session closes: change nothing more."""
        self._is_closing = True
        for change in self._waiting:
            change.set_outcome("cancelled")
        self._waiting.clear()
        if self._run is not None:
            if self._run.is_asked:
                self._place.step(i.PipelineChangeWithdrawn(self._run.change.id))
            self._run.scope.cancel()

    async def aclose(self) -> None:
        """End the pipeline in use, and those that were left; the caller bounds it."""
        for line in self._leaving:
            line.leaves.set()
        try:
            if self._line is not None:
                await self._line.aclose()
        finally:
            for line in list(self._leaving):
                await line.ended.wait()

    def _make(self, pipeline: Pipeline) -> AttachedPipeline:
        return AttachedPipeline(
            pipeline,
            context=PipelineContext(
                clock=self._context.clock,
                emit=_nobody,
                session_id=self._context.id,
                input_rate=self._place.input_rate,
                instructions=self._context.live.agent.instructions,
                tools=self._context.live.agent.tools,
            ),
            history=self._history,
            on_event=self._on_event,
            on_crash=self._on_crash,
        )

    def _leave(self, line: AttachedPipeline, *, linger: float) -> None:
        self._leaving.append(line)
        self._context.group.start_soon(self._retire, line, linger, name=f"closing a {line.pipeline.name} pipeline")

    async def _retire(self, line: AttachedPipeline, linger: float) -> None:
        raised: list[BaseException] = []
        call = OwnedCall(f"closing the {line.pipeline.name} pipeline", line.aclose, raised.append)
        try:
            with anyio.move_on_after(linger):
                await line.leaves.wait()
            self._context.group.start_soon(call.run, name=call.what)
            await call.finish(CLOSE_LIMIT)
            if not call.is_done or call.is_cut:
                raised.append(SessionError(f"{call.what} took longer than {CLOSE_LIMIT:g} s"))
        finally:
            self._leaving.remove(line)
            line.ended.set()
        for error in raised:
            told = error if isinstance(error, Exception) else SessionError(describe(error))
            self._context.report_error(told, "pipeline", is_recovered=True)


def _both(first: Callable[[AudioFrame], None], then: Callable[[AudioFrame], None], frame: AudioFrame) -> None:
    first(frame)
    then(frame)


def _nobody(event: PipelineEvent) -> None:
    """The line puts its own taker in this place."""


def _tell_passed_over(lost: PipelineCapabilities, error: Exception) -> None:
    """Have the fallback counted for the model that was lost."""
    parts = {kind: (provider, model) for kind, provider, model in lost.components}
    provider, model = parts.get("realtime_model") or parts.get("llm") or ("", "")
    passed_over("pipeline", provider, model, error)
