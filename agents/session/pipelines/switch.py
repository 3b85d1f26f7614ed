"""PipelineSwitch: opens, attaches and closes the session's pipelines, for `change_pipeline()`, `change_component()` and
for a fallback.

The turn machine decides which pipeline is opened, when it takes over, and whether another one follows a lost one
(`agents.turn.floor.pipeline_changes`). A change goes like this:

1. The new pipeline is opened beside the present one, which hears and speaks on. A realtime model gets the history.
2. At the moment that the turn machine chooses, the new pipeline takes over, in one step of the session's loop: no frame
   of the caller is lost in between. It gets the last half second of audio too, so that it hears the onset of speech
   that the old one has not noticed yet, and the items that the history got while it was opened.
3. The old one is closed in the background, within a limit. Until then it may still report the words of turns that it
   has heard.

`change_component()` is a change to a pipeline like the present one with another component in it, and it goes the same
way. The present connection stays, with the streams of all other components (`swap`): only the new component's stream
is opened beside, hears the last half second, and the old one's is closed; an old recogniser hears its utterance to the
end first, and settles its words (`Ears.take`). Where that cannot be, as when a realtime
model's session has to be set up in another way, or the present connection is lost, the new pipeline gets a connection
of its own. Components of an agent that hear the caller are opened before its handoff begins (`early`).

When no pipeline hears the caller any more, up to ten seconds of audio are kept for the next one. If a pipeline cannot
be opened, or no moment comes in time, the session goes on as before: the outcome is `failed`, and there is an `error`
event.
"""

from __future__ import annotations

import logging
from collections.abc import Sequence
from dataclasses import replace
from functools import partial

import anyio

from vivavoce.agents.agent import Agent
from vivavoce.agents.core.context import SessionContext
from vivavoce.agents.history.history import HistoryControl
from vivavoce.agents.session.options import SessionOptions
from vivavoce.agents.session.pipelines.attached import AttachedPipeline
from vivavoce.agents.session.pipelines.change import PipelineChangeControl
from vivavoce.agents.session.pipelines.early import EarlySwap
from vivavoce.agents.session.pipelines.in_use import PipelineInUse
from vivavoce.agents.session.pipelines.leaving import LeftPipelines
from vivavoce.agents.session.pipelines.names import PipelineNames
from vivavoce.agents.session.pipelines.opening import Opening
from vivavoce.agents.session.pipelines.own import OwnPipeline
from vivavoce.agents.session.pipelines.reports import PipelineReports
from vivavoce.agents.session.pipelines.swap import ComponentSwap
from vivavoce.agents.session.turn_taking import TurnTaking
from vivavoce.agents.session.wiring import turn_traits
from vivavoce.agents.turn import effects as fx
from vivavoce.agents.turn import inputs as i
from vivavoce.pipelines.core.errors import ConfigurationError, describe, located
from vivavoce.pipelines.core.ids import new_id
from vivavoce.pipelines.core.incidents import FellBack, passed_over
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
from vivavoce.pipelines.pipeline import ONSET_SECONDS, Pipeline, PipelineEvent, is_like

logger = logging.getLogger(__name__)

_TIMED = (UserSpeechStarted, UserSpeechEnded, UserVoicePaused, UserVoiceResumed)


class PipelineSwitch:
    """Opens, changes and closes pipelines for one session.

    Args:
        pipeline: The first one.
        turn_taking: Knows the options of agents that a pipeline must go with.
    """

    def __init__(
        self,
        context: SessionContext,
        pipeline: Pipeline,
        history: HistoryControl,
        turn_taking: TurnTaking,
        *,
        options: SessionOptions,
    ) -> None:
        self._context = context
        self._turn_taking = turn_taking
        self._options = options
        self._history = history
        self.own = OwnPipeline(pipeline)
        """The session's own pipeline, and the components that agents have in place of its."""
        self._reports = PipelineReports(context, history, limit=options.speech.stt_stage)
        self._names = PipelineNames(pipeline)
        self._input_rate = 0
        self._left = LeftPipelines(context)
        self._in_use = PipelineInUse(context, pipeline, self._left)
        self._wanted: dict[str, PipelineChangeControl] = {}
        self._opening: Opening | None = None
        self._early: EarlySwap | None = None
        """The components of the agent whose handoff waits."""
        self._ended = anyio.Event()
        """Set, and made anew, when a change has ended."""
        self._losses: dict[str, tuple[AttachedPipeline, PipelineFailed]] = {}
        self._loss_count = 0

    @property
    def pipeline(self) -> Pipeline:
        """The pipeline in use."""
        return self._in_use.pipeline

    @property
    def to_come(self) -> list[Pipeline]:
        """The pipelines that were asked for and do not serve yet."""
        opening = self._opening
        fallback = [opening.pipeline] if opening is not None and opening.control is None else []
        return [*fallback, *(control.pipeline for control in self._wanted.values())]

    @property
    def is_changing(self) -> bool:
        """Whether a change was asked for and has not ended."""
        return bool(self._wanted) or self._opening is not None

    @property
    def changes_for_agents(self) -> bool:
        """Whether one of these changes is to components of an agent, or back from them."""
        return any(control.agents for control in self._wanted.values())

    @property
    def is_lost(self) -> bool:
        """Whether the connection in use is lost for good, and another one is to take its place."""
        return self._in_use.attached.is_lost

    async def unchanging(self) -> None:
        """Wait until no change is under way, or the session closes."""
        while self.is_changing and not self._context.closing.is_asked:
            await self._ended.wait()

    def _note_end(self) -> None:
        ended, self._ended = self._ended, anyio.Event()
        ended.set()

    @property
    def failure(self) -> Exception | None:
        """The error by which the pipeline in use was lost for good, if it was."""
        return self._in_use.failure

    # --- start

    def open(self, input_rate: int) -> None:
        """Make the first pipeline's connection, which `start()` connects.

        Args:
            input_rate: Rate of the caller's audio in Hz.
        Raises:
            ConfigurationError: The pipeline is attached to a session already.
        """
        self._input_rate = input_rate
        agents = [self._context.live.agent]
        first = self.own.with_agents(agents)
        self.own.take_agents(agents)
        attached = self._attach(first)
        if first is not self.pipeline:
            self._post_first(attached)
        self._in_use.open(attached)

    async def start(self, limit: float) -> None:
        """Connect the first pipeline, or its fallback.

        Raises:
            SessionError: It is not ready within `limit` seconds.
            VoiceError: Its own error.
        """
        attached = self._in_use.attached
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
            self.own.begin(fallback)
            self._post_first(attached)
            self._in_use.take(attached)

    def _post_first(self, attached: AttachedPipeline) -> None:
        """Report that the session begins with another pipeline than it was made with."""
        traits = turn_traits(self._options, attached.capabilities)
        self._context.inbox.post(i.FallbackAtStart(pipeline=self._names.of(attached.pipeline), traits=traits))

    # --- changes

    def request(self, control: PipelineChangeControl) -> None:
        """Have that pipeline take over, in its turn; one that keeps the ears goes before all that do not serve yet."""
        if self._context.closing.is_asked:
            control.set_outcome("cancelled")
            return
        goes_first = control.keeps_ears and not self.is_lost
        behind = [self._take_back(change_id) for change_id in reversed([*self._wanted])] if goes_first else []
        self._ask(control, control.id)
        for other in reversed(behind):
            self._ask(other, new_id("change"))

    def withdraw(self, control: PipelineChangeControl) -> None:
        """That change is wanted no more, unless its pipeline serves already, or takes the place of a lost one."""
        change_id = next((each for each, wanted in self._wanted.items() if wanted is control), None)
        if change_id is not None and not self.is_lost:
            self._take_back(change_id).set_outcome("cancelled")
            self._note_end()

    def _take_back(self, change_id: str) -> PipelineChangeControl:
        """Ask for that change no more, and close its pipeline if that is on its way; return the change."""
        control, opening = self._wanted.pop(change_id), self._opening
        if opening is not None and opening.change_id == change_id:
            self._opening = None
            opening.release()
            self._in_use.forget_onset()
        self._context.inbox.post(i.PipelineChangeFailed(change_id))
        return control

    def _ask(self, control: PipelineChangeControl, change_id: str) -> None:
        self._wanted[change_id] = control
        name = self._names.of(control.pipeline)
        self._context.inbox.post(i.PipelineChangeRequested(change_id=change_id, pipeline=name, within=control.within))

    async def _carry_out(self, opening: Opening) -> None:
        name = opening.pipeline.name
        try:
            with opening.scope, strays_as_errors("the change of the pipeline"):
                await self._change(opening)
        except Exception as error:  # noqa: BLE001 - a provider that cannot be had leaves the session as it was
            logger.warning("The change to the %s pipeline failed: %s", name, located(error))
            logger.debug("The change failed here", exc_info=error)
            if opening.control is not None:
                opening.control.set_outcome("failed", error)
            self._context.report_error(error, "pipeline", is_recovered=self.failure is None)
            if opening.dropped is None:
                self._context.inbox.post(i.PipelineChangeFailed(opening.change_id))
        finally:
            if opening.attached is not None and not self._in_use.is_of(opening.attached):
                self._left.add(opening.attached, linger=0.0)
            if opening.swap is not None:
                self._left.add(opening.swap, linger=0.0)
            if opening.control is not None:
                opening.control.set_outcome("cancelled")

    async def _change(self, opening: Opening) -> None:
        context, old, new = self._context, self.pipeline.name, opening.pipeline.name
        with context.observer.hook("pipeline_change", old=old, new=new) as watch:
            try:
                await self._open_new(opening)
                if opening.control is not None and not opening.control.agents:
                    self._turn_taking.check_for_all(opening.pipeline)  # another agent may have come since the request
                traits = turn_traits(self._options, opening.pipeline.capabilities)
                keeps_ears = opening.swap is not None and not opening.swap.hears
                context.inbox.post(i.PipelineReady(change_id=opening.change_id, traits=traits, keeps_ears=keeps_ears))
                await opening.decided.wait()  # within `within` seconds, by the turn machine
                if (error := opening.error) is not None:
                    raise error
            except Exception as error:
                watch.failed(error)
                raise
        if opening.dropped is None and opening.control is not None:
            opening.control.set_outcome("completed")

    async def _open_new(self, opening: Opening) -> None:
        """Open the new pipeline beside the present one, and have it hear the last half second too."""
        context, control, limit = self._context, opening.control, self._options.start_step
        begins_at, hears = context.clock.now() + ONSET_SECONDS, True
        if control is not None and control.is_of_components:
            opening.pipeline = control.begin_from(self.pipeline, self.own)
            self._names.rename(opening.name, opening.pipeline)
            early = self._early
            if early is not None and early.fits(control.agents, self.pipeline, opening.pipeline):
                self._early = None
                opening.swap = early.take(partial(self._fail_swap, opening))
                if early.error is not None:
                    raise early.error
                return
        self.drop_early()
        is_held = opening.pipeline is self._in_use.attached.opened  # its components were changed since
        if is_held or (control is not None and control.is_of_components):
            swap = ComponentSwap(
                self._in_use.attached, opening.pipeline, context.clock, partial(self._fail_swap, opening)
            )
            if swap.is_possible:
                opening.swap, hears = swap, swap.hears
        if opening.swap is not None:
            await opening.swap.start(context.group, limit)
        else:
            await self._left.freed(opening.pipeline)
            begins_at = context.clock.now() + ONSET_SECONDS
            self._in_use.keep_onset()
            opening.attached = self._attach(opening.pipeline)
            await opening.attached.start(context.group, limit, prepares=True)
        if hears and self.failure is None:
            await anyio.sleep(max(0.0, begins_at - context.clock.now()))

    # --- components of an agent whose handoff waits

    def open_early(self, agents: Sequence[Agent]) -> EarlySwap | None:
        """Open the components of an agent that is to take over, if that takes time; None if the handoff needs no wait.

        Args:
            agents: The agent last; before it those behind the task.
        """
        self.drop_early()
        if self.is_changing or self._context.closing.is_asked or self.is_lost:
            return None
        try:
            pipeline = self.own.with_agents(agents)
        except ConfigurationError:  # the handoff reports it
            return None
        if is_like(pipeline, self.pipeline):
            return None
        leave = partial(self._left.add, linger=0.0)
        early = EarlySwap(self._context, self._in_use.attached, pipeline, agents, leave=leave)
        if not early.is_worthwhile:
            return None
        self._early = early
        self._context.group.start_soon(early.open, self._options.start_step, name=f"opening for {agents[-1].id}")
        return early

    def drop_early(self) -> None:
        """The handoff for which components were opened is over, or comes to nothing."""
        early, self._early = self._early, None
        if early is not None:
            early.drop()

    # --- effects

    def begin(self, effect: fx.OpenPipeline) -> None:
        """Open that pipeline, beside the one in use."""
        control, pipeline = self._wanted.get(effect.change_id), self._names.pipeline(effect.pipeline)
        if control is None:
            _count_fallback(self._in_use.attached)
        self._opening = opening = Opening(effect.change_id, effect.pipeline, pipeline, control)
        self._context.group.start_soon(self._carry_out, opening, name=f"change to {pipeline.name}")

    def take(self, effect: fx.TakePipeline) -> None:
        """The open pipeline serves from here on."""
        opening = self._opening
        if (
            self._context.closing.is_asked
            or opening is None
            or opening.change_id != effect.change_id
            or not opening.is_open
        ):
            return
        self._opening = None
        self._wanted.pop(effect.change_id, None)
        if opening.control is None:
            self.own.begin(opening.pipeline)
        else:
            opening.control.taken(self.own)
        if opening.swap is None or opening.swap.hears:
            self._reports.leave_recogniser()
        if opening.swap is not None:
            self._in_use.take_components(opening.swap)
        elif opening.attached is not None:
            self._in_use.take(opening.attached)
        opening.decide()
        self._turn_taking.take_pipeline(self.pipeline)
        self._note_end()
        asked = (control.pipeline for control in self._wanted.values())
        self._names.keep([self.pipeline, *asked, *(lost.pipeline for lost, _ in self._losses.values())])

    def drop(self, effect: fx.DropPipeline) -> None:
        """Nothing comes of that change."""
        control, opening = self._wanted.pop(effect.change_id, None), self._opening
        if opening is not None and opening.change_id == effect.change_id:
            self._opening = None
            opening.decide(effect)
            self._in_use.forget_onset()
        elif control is not None and effect.reason == "in_use":
            logger.info("The %s pipeline is in use already; nothing changes", control.pipeline.name)
            if control.agents:
                self.own.take_agents(control.agents)
            control.set_outcome("completed")
        elif control is not None:
            control.set_outcome("cancelled")
        self._note_end()

    def report_loss(self, effect: fx.ReportLoss) -> None:
        """Report the error of a lost pipeline, and keep the caller's audio where nothing hears it any more."""
        attached, event = self._losses.pop(effect.loss_id)
        self._context.report_error(event.error, event.component or "pipeline", is_recovered=effect.goes_on)
        attached.fail(event.error)
        if effect.keeps_audio:
            self._in_use.keep_unheard(event.unheard)

    # --- events of pipelines

    def _on_event(self, attached: AttachedPipeline, event: PipelineEvent) -> None:
        if isinstance(event, PipelineFailed):
            self._on_failed(attached, event)
        elif self._in_use.is_of(attached) or isinstance(event, PipelineUsage):
            if isinstance(event, _TIMED):
                event = replace(event, at=event.at - self._in_use.behind)
            if isinstance(event, UserSpeechEnded):
                self._in_use.speech_ended(event.at)
            self._reports.take(event)
        elif isinstance(event, RemoteReplyStarted):
            attached.connection.refuse(event.remote_reply_id)
        elif isinstance(event, UserFinal):
            self._reports.take(event if event.item_id else replace(event, is_past=True))
        elif isinstance(event, AgentTranscript):
            self._reports.take(event)

    def _on_crash(self, attached: AttachedPipeline, error: Exception) -> None:
        logger.error("The pipeline ended by an error: %s", describe(error))
        logger.debug("The pipeline ended by an error", exc_info=error)
        self._lose(attached, PipelineFailed(error, False, "pipeline"))

    def _on_failed(self, attached: AttachedPipeline, event: PipelineFailed) -> None:
        self._context.closing.note(event.error)
        if event.recovered:
            self._reports.failed(event)
        else:
            self._lose(attached, event)

    def _lose(self, attached: AttachedPipeline, event: PipelineFailed) -> None:
        opening = None if self._opening is None else self._opening.attached
        if not self._in_use.is_of(attached) and attached is not opening:  # left or dropped: of no use any more
            attached.fail(event.error)
            self._reports.failed(event)
            return
        attached.lose()
        if self._in_use.is_of(attached) and self._opening is not None and self._opening.swap is not None:
            self._begin_anew(self._opening)
        self._loss_count += 1
        loss_id = f"loss_{self._loss_count}"
        self._losses[loss_id] = attached, event
        name, fallback = self._names.of(attached.pipeline), attached.pipeline.fallback
        self._context.inbox.post(
            i.PipelineLost(name, event.component, "" if fallback is None else self._names.of(fallback), loss_id)
        )

    def _begin_anew(self, opening: Opening) -> None:
        """The connection whose components were to change is lost: the new pipeline gets a connection of its own."""
        control = opening.release()
        assert control is not None
        self._wanted.pop(opening.change_id)
        self._context.inbox.post(i.PipelineChangeFailed(opening.change_id))
        self._ask(control, new_id("change"))

    def _fail_swap(self, opening: Opening) -> None:
        """A new component was lost before it took over; `opening.error` has its error."""
        self._context.inbox.post(i.PipelineChangeFailed(opening.change_id))

    def _attach(self, pipeline: Pipeline) -> AttachedPipeline:
        return AttachedPipeline(
            self._context,
            pipeline,
            self._history,
            input_rate=self._input_rate,
            on_event=self._on_event,
            on_crash=self._on_crash,
        )

    # --- the end

    def close(self) -> None:
        """The session closes: change nothing more."""
        self._context.inbox.post(i.PipelineChangesClosed())
        if self._opening is not None:
            self._opening.scope.cancel()
        for control in self._wanted.values():
            control.set_outcome("cancelled")
        self._wanted.clear()
        self._note_end()
        self.drop_early()

    async def aclose(self) -> None:
        """End the pipeline in use, and those that were left; the caller sets a limit."""
        self._left.hurry()
        try:
            await self._in_use.aclose()
        finally:
            await self._left.closed()


def _count_fallback(lost: AttachedPipeline) -> None:
    """Have the fallback counted for the model that was lost."""
    parts = {kind: (provider, model) for kind, provider, model in lost.capabilities.components}
    provider, model = parts.get("realtime_model") or parts.get("llm") or ("", "")
    assert lost.failure is not None
    passed_over(FellBack("pipeline", provider, model, lost.failure, is_reported=True))
