"""PipelineSwitch: opens, attaches and closes the session's pipelines, for `change_pipeline()` and for a fallback.

The turn machine decides which pipeline is opened, when it takes over, and whether another one follows a lost one
(`agents.turn.floor.pipeline_changes`). A change goes like this:

1. The new pipeline is opened beside the present one, which hears and speaks on. A realtime model gets the history.
2. At the moment that the turn machine chooses, the new pipeline takes over, in one step of the session's loop: no frame
   of the caller is lost in between. It gets the last half second of audio too, so that it hears the onset of speech
   that the old one has not noticed yet, and the items that the history got while it was opened.
3. The old one is closed in the background, within a limit. Until then it may still report the words of turns that it
   has heard.

When no pipeline hears the caller any more, up to ten seconds of audio are kept for the next one. If a pipeline cannot
be opened, or no moment comes in time, the session goes on as before: the outcome is `failed`, and there is an `error`
event.
"""

from __future__ import annotations

import logging
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from functools import partial

import anyio

from vivavoce.agents import events as ev
from vivavoce.agents.core.context import SessionContext
from vivavoce.agents.history.history import HistoryControl
from vivavoce.agents.records import ComponentRecord, UsageRecord
from vivavoce.agents.session.options import SessionOptions
from vivavoce.agents.session.pipelines.attached import AttachedPipeline
from vivavoce.agents.session.pipelines.change import PipelineChangeControl
from vivavoce.agents.session.wiring import check_flow, check_turns, check_wiring, turn_traits
from vivavoce.agents.speech.flow import ConversationFlow
from vivavoce.agents.turn import effects as fx
from vivavoce.agents.turn import inputs as i
from vivavoce.pipelines.core.checks import check_number
from vivavoce.pipelines.core.errors import SessionError, describe, located
from vivavoce.pipelines.core.incidents import passed_over
from vivavoce.pipelines.core.owned_call import OwnedCall
from vivavoce.pipelines.core.stray_cancellation import strays_as_errors
from vivavoce.pipelines.events import (
    AgentTranscript,
    PipelineFailed,
    PipelineReplaced,
    PipelineUsage,
    RemoteReplyStarted,
    UserFinal,
    UserSpeechEnded,
    UserSpeechStarted,
    UserVoicePaused,
    UserVoiceResumed,
)
from vivavoce.pipelines.media.buffer import RecentFrames
from vivavoce.pipelines.media.frame import AudioFrame
from vivavoce.pipelines.pipeline import Pipeline, PipelineEvent

logger = logging.getLogger(__name__)

ONSET_SECONDS = 0.5
"""Seconds of audio before the change that the new pipeline gets too."""
LOST_SECONDS = 10.0
"""Seconds of audio that are kept for the pipeline that takes the place of a lost one."""
LATE_WORDS = 1.0
"""Seconds in which a pipeline that was left may still report the words of turns that it has heard."""
CLOSE_LIMIT = 5.0
"""Seconds that closing it may take."""

_TIMED = (UserSpeechStarted, UserSpeechEnded, UserVoicePaused, UserVoiceResumed)


@dataclass(slots=True, eq=False)
class _Opening:
    """A pipeline that is being opened, or is open and waits for its moment.

    Args:
        control: The application's change; None for a fallback.
    """

    change_id: str
    pipeline: Pipeline
    control: PipelineChangeControl | None
    attached: AttachedPipeline | None = None
    dropped: fx.DropPipeline | None = None
    decided: anyio.Event = field(default_factory=anyio.Event)
    """Set when it has taken over, or the turn machine has dropped it."""
    scope: anyio.CancelScope = field(default_factory=anyio.CancelScope)

    @property
    def error(self) -> Exception | None:
        """The error with which the change failed once the pipeline was open."""
        if self.dropped is None or self.attached is None:
            return None
        if self.dropped.reason == "no_moment" and self.control is not None:
            return SessionError(f"no moment came within {self.control.within:g} s without speech")
        return self.attached.failure if self.dropped.reason == "failed" else None


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
        self._known = [pipeline]
        self._input_rate = 0
        self._present: AttachedPipeline | None = None
        self._leaving: list[AttachedPipeline] = []
        self._wanted: dict[str, PipelineChangeControl] = {}
        self._opening: _Opening | None = None
        self._losses: dict[str, deque[tuple[AttachedPipeline, PipelineFailed]]] = {}
        self._kept: RecentFrames | None = None
        self._behind = 0.0
        """Seconds of kept audio that follow the frame that the new pipeline is given."""
        self._note_closing_error: Callable[[Exception], None] | None = None

    @property
    def _in_use(self) -> AttachedPipeline:
        assert self._present is not None, "open() comes before any use"
        return self._present

    @property
    def to_come(self) -> list[Pipeline]:
        """The pipelines that were asked for and do not serve yet."""
        opening = self._opening
        fallback = [opening.pipeline] if opening is not None and opening.control is None else []
        return [*fallback, *(control.pipeline for control in self._wanted.values())]

    @property
    def failure(self) -> Exception | None:
        """The error by which the pipeline in use was lost for good, if it was."""
        return None if self._present is None else self._present.failure

    # --- start

    def open(self, input_rate: int) -> None:
        """Make the first pipeline's connection, which `start()` connects.

        Args:
            input_rate: Rate of the caller's audio in Hz.
        Raises:
            ConfigurationError: The pipeline is attached to a session already.
        """
        self._input_rate = input_rate
        self._present = self._attach(self.pipeline)
        self._use(self._present)

    async def start(self, limit: float) -> None:
        """Connect the first pipeline, or its fallback.

        Raises:
            SessionError: It is not ready within `limit` seconds.
            VoiceError: Its own error.
        """
        attached = self._in_use
        while True:
            try:
                return await attached.start(self._context.group, limit)
            except Exception as error:  # noqa: BLE001 - whatever keeps it from being opened, the fallback may do
                if (fallback := attached.pipeline.fallback) is None:
                    raise
                attached.fail(error)
                _count_fallback(attached)
                self._context.report_error(error, "pipeline", is_recovered=True)
            attached = self._attach(fallback)
            traits = turn_traits(self._options, attached.capabilities)
            self._context.inbox.post(i.FallbackAtStart(pipeline=self._name(fallback), **traits))
            self._take(attached)

    # --- changes

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

    def request(self, control: PipelineChangeControl) -> None:
        """Have that pipeline take over, in its turn."""
        if self._context.closing.is_asked:
            control.set_outcome("cancelled")
            return
        self._wanted[control.id] = control
        name = self._name(control.pipeline)
        self._context.inbox.post(i.PipelineChangeRequested(change_id=control.id, pipeline=name, within=control.within))

    async def _carry_out(self, opening: _Opening) -> None:
        control, name = opening.control, opening.pipeline.name
        try:
            with opening.scope, strays_as_errors("the change of the pipeline"):
                await self._change(opening)
        except Exception as error:  # noqa: BLE001 - a provider that cannot be had leaves the session as it was
            logger.warning("The change to the %s pipeline failed: %s", name, located(error))
            logger.debug("The change failed here", exc_info=error)
            if control is not None:
                control.set_outcome("failed", error)
            self._context.report_error(error, "pipeline", is_recovered=self.failure is None)
            if opening.dropped is None:
                self._context.inbox.post(i.PipelineChangeFailed(opening.change_id))
        finally:
            if opening.attached is not None and opening.attached is not self._present:
                self._leave(opening.attached, linger=0.0)
            if control is not None:
                control.set_outcome("cancelled")

    async def _change(self, opening: _Opening) -> None:
        old, new = self.pipeline.name, opening.pipeline.name
        context = self._context
        with context.observer.hook("pipeline_change", old=old, new=new) as watch:
            try:
                for attached in list(self._leaving):
                    if attached.pipeline is opening.pipeline:
                        attached.must_close.set()
                        await attached.ended.wait()  # bounded by CLOSE_LIMIT
                begins_at = context.clock.now() + ONSET_SECONDS
                if self._kept is None:
                    self._keep(ONSET_SECONDS)
                opening.attached = self._attach(opening.pipeline)
                await opening.attached.start(context.group, self._options.start_step, prepares=True)
                if self.failure is None:
                    await anyio.sleep(max(0.0, begins_at - context.clock.now()))
                traits = turn_traits(self._options, opening.attached.capabilities)
                context.inbox.post(i.PipelineReady(change_id=opening.change_id, **traits))
                await opening.decided.wait()  # within `within` seconds, by the turn machine
                if (error := opening.error) is not None:
                    raise error
            except Exception as error:
                watch.failed(error)
                raise
        if opening.attached is self._present and opening.control is not None:
            opening.control.set_outcome("completed")

    # --- effects

    def begin(self, effect: fx.OpenPipeline) -> None:
        """Open that pipeline, beside the one in use."""
        control, pipeline = self._wanted.get(effect.change_id), self._named(effect.pipeline)
        if control is None:
            _count_fallback(self._in_use)
        self._opening = opening = _Opening(effect.change_id, pipeline, control)
        self._context.group.start_soon(self._carry_out, opening, name=f"change to {pipeline.name}")

    def take(self, effect: fx.TakePipeline) -> None:
        """The open pipeline serves from here on."""
        opening = self._opening
        if (
            self._context.closing.is_asked
            or opening is None
            or opening.attached is None
            or opening.change_id != effect.change_id
        ):
            return
        self._opening = None
        self._wanted.pop(effect.change_id, None)
        self._take(opening.attached)
        opening.decided.set()

    def drop(self, effect: fx.DropPipeline) -> None:
        """Nothing comes of that change."""
        control, opening = self._wanted.pop(effect.change_id, None), self._opening
        if opening is not None and opening.change_id == effect.change_id:
            self._opening, opening.dropped = None, effect
            opening.decided.set()
            if self._kept is not None and self.failure is None:
                self._kept = None
                self._context.live.hear = self._in_use.connection.push_audio
        elif control is not None and effect.reason == "in_use":
            logger.info("The %s pipeline is in use already; nothing changes", control.pipeline.name)
            control.set_outcome("completed")
        elif control is not None:
            control.set_outcome("cancelled")

    def report_loss(self, effect: fx.ReportLoss) -> None:
        """Report the error of a lost pipeline, and keep the caller's audio where nothing hears it any more."""
        attached, event = self._losses[effect.pipeline].popleft()
        self._context.report_error(event.error, event.component or "pipeline", is_recovered=effect.goes_on)
        attached.fail(event.error)
        if effect.keeps_audio:
            before = [] if self._kept is None else self._kept.drain()
            kept = self._keep(LOST_SECONDS, is_deaf=True)
            for frame in [*event.unheard, *before]:
                kept.push(frame)

    # --- events of pipelines

    def _on_event(self, attached: AttachedPipeline, event: PipelineEvent) -> None:
        if isinstance(event, PipelineFailed):
            self._on_failed(attached, event)
        elif attached is self._present or isinstance(event, PipelineUsage):
            if isinstance(event, _TIMED):
                event = replace(event, at=event.at - self._behind)
            self._pass_on(event)
        elif isinstance(event, RemoteReplyStarted):
            attached.connection.refuse(event.remote_reply_id)
        elif isinstance(event, AgentTranscript) or (isinstance(event, UserFinal) and event.item_id):
            self._pass_on(event)

    def _pass_on(self, event: PipelineEvent) -> None:
        log, inbox = self._context.log, self._context.inbox
        if isinstance(event, PipelineUsage):
            log.add_usage(
                UsageRecord(
                    llm_input_tokens=event.input_tokens,
                    llm_output_tokens=event.output_tokens,
                    llm_cached_tokens=event.cached_tokens,
                )
            )
        elif isinstance(event, PipelineReplaced):
            component, gap, reason = event.component, event.gap, event.reason
            logger.info("The connection of the %s was replaced (%s), with a gap of %.3f s", component, reason, gap)
            log.note(ev.ConnectionReplaced, component=component, gap=gap, reason=reason)
        elif isinstance(event, AgentTranscript):
            inbox.call(partial(self._history.settle_cut, event.item_id, event.text))
        elif not isinstance(event, PipelineFailed):
            inbox.post(event)

    def _on_crash(self, attached: AttachedPipeline, error: Exception) -> None:
        logger.error("The pipeline ended by an error: %s", describe(error))
        logger.debug("The pipeline ended by an error", exc_info=error)
        self._lose(attached, PipelineFailed(error, False, "pipeline"))

    def _on_failed(self, attached: AttachedPipeline, event: PipelineFailed) -> None:
        if self._note_closing_error is not None:
            self._note_closing_error(event.error)
        if event.recovered:
            self._report_recovered(event)
        else:
            self._lose(attached, event)

    def _lose(self, attached: AttachedPipeline, event: PipelineFailed) -> None:
        opening = None if self._opening is None else self._opening.attached
        if attached is not self._present and attached is not opening:  # left or dropped: of no use any more
            attached.fail(event.error)
            self._report_recovered(event)
            return
        name, fallback = self._name(attached.pipeline), attached.pipeline.fallback
        self._losses.setdefault(name, deque()).append((attached, event))
        self._context.inbox.post(
            i.PipelineLost(name, event.component, "" if fallback is None else self._name(fallback))
        )

    def _report_recovered(self, event: PipelineFailed) -> None:
        source, report = event.component or "pipeline", self._context.report_error
        self._context.inbox.call(partial(report, event.error, source, is_recovered=True))

    # --- the pipeline in use

    def _name(self, pipeline: Pipeline) -> str:
        """Return the turn machine's name of that pipeline, the same each time."""
        for number, known in enumerate(self._known):
            if known is pipeline:
                return i.FIRST_PIPELINE if number == 0 else f"pipeline_{number + 1}"
        self._known.append(pipeline)
        return f"pipeline_{len(self._known)}"

    def _named(self, name: str) -> Pipeline:
        return next(pipeline for pipeline in self._known if self._name(pipeline) == name)

    def _attach(self, pipeline: Pipeline) -> AttachedPipeline:
        return AttachedPipeline(
            self._context,
            pipeline,
            self._history,
            input_rate=self._input_rate,
            on_event=self._on_event,
            on_crash=self._on_crash,
        )

    def _use(self, attached: AttachedPipeline) -> None:
        live = self._context.live
        self._present, self.pipeline, live.capabilities = attached, attached.pipeline, attached.capabilities
        live.connection, live.hear = attached.connection, attached.connection.push_audio

    def _take(self, new: AttachedPipeline) -> None:
        old = self._in_use
        new.bring_up_to_date(self._context.live.agent)
        self._use(new)
        parts = tuple(ComponentRecord(*part) for part in new.capabilities.components)
        self._context.log.note(ev.PipelineChanged, old=old.pipeline.name, pipeline=new.pipeline.name, components=parts)
        logger.info("The session went from the %s to the %s pipeline", old.pipeline.name, new.pipeline.name)
        kept, self._kept = self._kept, None
        frames = [] if kept is None else kept.drain()
        self._behind = sum(frame.duration for frame in frames)
        for frame in frames:
            self._behind -= frame.duration
            new.connection.push_audio(frame)
        self._behind = 0.0
        self._leave(old, linger=0.0 if old.failure is not None else LATE_WORDS)

    def _keep(self, seconds: float, *, is_deaf: bool = False) -> RecentFrames:
        """Keep the last seconds of the caller's audio, for the pipeline that comes."""
        self._kept = kept = RecentFrames(seconds)
        push = self._in_use.connection.push_audio
        self._context.live.hear = kept.push if is_deaf else partial(_both, kept.push, push)
        return kept

    # --- the end

    def close(self, note_error: Callable[[Exception], None] | None = None) -> None:
        """The session closes: change nothing more.

        Args:
            note_error: Called from now on with each error that a pipeline reports.
        """
        self._note_closing_error = note_error
        self._context.inbox.post(i.PipelineChangesClosed())
        if self._opening is not None:
            self._opening.scope.cancel()
        for control in self._wanted.values():
            control.set_outcome("cancelled")
        self._wanted.clear()

    async def aclose(self) -> None:
        """End the pipeline in use, and those that were left; the caller sets a limit."""
        for attached in self._leaving:
            attached.must_close.set()
        try:
            if self._present is not None:
                await self._present.aclose()
        finally:
            for attached in list(self._leaving):
                await attached.ended.wait()

    def _leave(self, attached: AttachedPipeline, *, linger: float) -> None:
        self._leaving.append(attached)
        self._context.group.start_soon(
            self._retire, attached, linger, name=f"closing a {attached.pipeline.name} pipeline"
        )

    async def _retire(self, attached: AttachedPipeline, linger: float) -> None:
        raised: list[BaseException] = []
        call = OwnedCall(f"closing the {attached.pipeline.name} pipeline", attached.aclose, raised.append)
        try:
            with anyio.move_on_after(linger):
                await attached.must_close.wait()
            self._context.group.start_soon(call.run, name=call.what)
            await call.finish(CLOSE_LIMIT)
            if not call.is_done or call.is_cut:
                raised.append(SessionError(f"{call.what} took longer than {CLOSE_LIMIT:g} s"))
        finally:
            self._leaving.remove(attached)
            attached.ended.set()
        for error in raised:
            reported = error if isinstance(error, Exception) else SessionError(describe(error))
            self._context.report_error(reported, "pipeline", is_recovered=True)


def _both(first: Callable[[AudioFrame], None], then: Callable[[AudioFrame], None], frame: AudioFrame) -> None:
    first(frame)
    then(frame)


def _count_fallback(lost: AttachedPipeline) -> None:
    """Have the fallback counted for the model that was lost."""
    parts = {kind: (provider, model) for kind, provider, model in lost.capabilities.components}
    provider, model = parts.get("realtime_model") or parts.get("llm") or ("", "")
    assert lost.failure is not None
    passed_over("pipeline", provider, model, lost.failure)
