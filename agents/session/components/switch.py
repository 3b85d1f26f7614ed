"""PipelineSwitch: the successors of a session, from the first pipeline to the last. How a change goes: the package."""

from __future__ import annotations

import logging
from weakref import WeakSet

import anyio

from vivavoce.agents import events as ev
from vivavoce.agents.audio.kept_audio import KeptAudio
from vivavoce.agents.core.call_site import call_site
from vivavoce.agents.core.component_places import ComponentPlaces
from vivavoce.agents.core.context import SessionContext
from vivavoce.agents.history.history import HistoryControl
from vivavoce.agents.records import ComponentRecord
from vivavoce.agents.session.components.forms import Form, OwnConnection, PartsOfPresent
from vivavoce.agents.session.components.successor import PipelineChangeControl, Successor
from vivavoce.agents.session.options import SessionOptions
from vivavoce.agents.session.turns.turn_taking import TurnTaking, turn_traits
from vivavoce.agents.speech.pipeline_reports import PipelineReports
from vivavoce.agents.speech.seeing import check_sees
from vivavoce.agents.turn import effects as fx
from vivavoce.agents.turn import inputs as i
from vivavoce.pipelines.core.changes import Changes
from vivavoce.pipelines.core.errors import describe, located
from vivavoce.pipelines.core.ids import new_id
from vivavoce.pipelines.core.stray_cancellation import strays_as_errors
from vivavoce.pipelines.events import LATE_WORDS, PipelineFailed, UserSpeechEnded
from vivavoce.pipelines.pipeline import ONSET_SECONDS, Pipeline, PipelineEvent

logger = logging.getLogger(__name__)


class PipelineSwitch:
    """Opens, changes and closes pipelines for one session, and writes what `context.live` shows of the one in use.

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
        self.places = ComponentPlaces(pipeline)
        """The session's own pipeline, and the components that agents have in place of its."""
        self._reports = PipelineReports(context, history, limit=options.speech.stt_stage)
        self._kept = KeptAudio(context.live)
        self._input_rate = 0
        self._present = Successor(context, pipeline, i.FIRST_PIPELINE)
        """The successor that serves."""
        self._to_come: dict[str, Successor] = {}
        """The successors that were asked for and do not serve yet, by the ids of their changes."""
        self._early: Successor | None = None
        """The successor that opens the components of the agent whose handoff waits."""
        self._left: WeakSet[Successor] = WeakSet()
        """The successors that were left; the tasks that close them keep them."""
        self._ends = Changes()
        """The ends of changes."""
        self._losses: dict[str, tuple[Successor, PipelineFailed]] = {}
        """Losses that the turn machine does not know yet, by their ids."""
        self._loss_count = 0
        self._name_count = 1

    @property
    def pipeline(self) -> Pipeline:
        """The pipeline in use."""
        return self._present.pipeline

    @property
    def to_come(self) -> list[Pipeline]:
        """The pipelines that were asked for and do not serve yet; a fallback is the first one."""
        return [new.pipeline for new in self._to_come.values()]

    @property
    def is_changing(self) -> bool:
        """Whether a change was asked for and has not ended."""
        return bool(self._to_come)

    @property
    def changes_for_agents(self) -> bool:
        """Whether one of these changes is to components of an agent, or back from them."""
        return any(new.agents for new in self._to_come.values())

    @property
    def is_lost(self) -> bool:
        """Whether the connection in use is lost for good, and another one is to take its place."""
        return self.failure is not None or any(lost is self._present for lost, _ in self._losses.values())

    @property
    def failure(self) -> Exception | None:
        """The error by which the pipeline in use was lost for good, if that was reported."""
        return self._present.error

    async def unchanging(self) -> None:
        """Wait until no change is under way, or the session closes."""
        while self.is_changing and not self._context.closing.is_asked:
            await self._ends.wait()

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
        first = self.places.with_agents(agents)
        self.places.take_agents(agents)
        self._present = self._first(first)
        self._present.serve_first()
        self._show_present()
        if self._present.name != i.FIRST_PIPELINE:
            self._post_first()

    async def start(self, limit: float) -> None:
        """Connect the first pipeline, or its fallback.

        Raises:
            SessionError: It is not ready within `limit` seconds.
            VoiceError: Its own error.
        """
        while True:
            lost = self._present
            try:
                return await lost.connection.open(limit, is_prepared=True)
            except Exception as error:  # noqa: BLE001 - whatever keeps it from being opened, the fallback may do
                if (fallback := lost.pipeline.fallback) is None:
                    raise
                lost.fail(error)
                lost.count_fallback()
                self._context.report_error(error, "pipeline", is_recovered=True)
            new = self._first(fallback)
            self.places.begin(fallback)
            self._serve(new)
            self._post_first()

    def _first(self, pipeline: Pipeline) -> Successor:
        """Return a pipeline that the session begins with, and its connection."""
        new = Successor(self._context, pipeline, self._name_of(pipeline))
        new.begin()
        new.use(self._own_connection(pipeline))
        return new

    def _post_first(self) -> None:
        """Report that the session begins with another pipeline than it was made with."""
        traits = turn_traits(self._options, self.pipeline.capabilities)
        self._context.inbox.post(i.FallbackAtStart(pipeline=self._present.name, traits=traits))

    # --- requests

    def request(self, control: PipelineChangeControl) -> None:
        """Queue the change. A change that keeps the listening components goes to the front."""
        if self._context.closing.is_asked:
            control.set_outcome("cancelled")
            return
        goes_first = control.keeps_ears and not self.is_lost
        behind = [self._take_back(change_id) for change_id in reversed([*self._to_come])] if goes_first else []
        self._ask(control, control.id)
        for other in reversed(behind):
            self._ask(other, new_id("change"))

    def withdraw(self, control: PipelineChangeControl) -> None:
        """Cancel that change, unless its pipeline serves already, or takes the place of a lost one."""
        change_id = next((each for each, new in self._to_come.items() if new.control is control), None)
        if change_id is not None and not self.is_lost:
            self._take_back(change_id).set_outcome("cancelled")
            self._ends.note()

    def _ask(self, control: PipelineChangeControl, change_id: str) -> None:
        pipeline, name = control.pipeline, self._name_of(control.pipeline)
        self._to_come[change_id] = Successor(self._context, pipeline, name, change_id, control)
        self._context.inbox.post(i.PipelineChangeRequested(change_id=change_id, pipeline=name, within=control.within))

    def _take_back(self, change_id: str) -> PipelineChangeControl:
        """Ask for that change no more, and close its pipeline if that is on its way; return the change."""
        new = self._to_come.pop(change_id)
        if new.is_on_its_way:
            self._forget_onset()
        self._context.inbox.post(i.PipelineChangeFailed(change_id))
        return new.release()

    def _name_of(self, pipeline: Pipeline) -> str:
        """Return the turn machine's name of a pipeline, the same while it is in use, asked for or the fallback."""
        known = {each.name: each.pipeline for each in (self._present, *self._to_come.values())}
        if self.pipeline.fallback is not None:
            known.setdefault(f"{self._present.name}_fallback", self.pipeline.fallback)
        name = next((name for name, one in known.items() if one is pipeline), "")
        if not name:
            self._name_count += 1
            name = f"pipeline_{self._name_count}"
        return name

    # --- opening

    async def _carry_out(self, new: Successor) -> None:
        try:
            with new.scope, strays_as_errors("the change of the pipeline"):
                if new.state == "opening":  # else it was taken back before this task began
                    await self._change(new)
        except Exception as error:  # noqa: BLE001 - a provider that cannot be had leaves the session as it was
            logger.warning("The change to the %s pipeline failed: %s", new.pipeline.name, located(error))
            logger.debug("The change failed here", exc_info=error)
            if new.is_on_its_way:
                new.fail(error)
            new.settle("failed", error)
            self._context.report_error(error, "pipeline", is_recovered=self.failure is None)
            if new.change_id in self._to_come:
                self._context.inbox.post(i.PipelineChangeFailed(new.change_id))
        finally:
            if new.is_on_its_way:
                new.drop()
            if new.state in ("failed", "dropped"):
                self._leave(new)
            new.settle("cancelled")

    async def _change(self, new: Successor) -> None:
        context = self._context
        with context.observer.hook("pipeline_change", old=self.pipeline.name, new=new.pipeline.name) as watch:
            try:
                await self._open_for_change(new)
                if new.control is not None and not new.agents:
                    self._turn_taking.check_for_all(new.pipeline)  # another agent may have come since the request
                    check_sees(context.live, new.pipeline)
                if new.state == "opening":  # else it was lost as it opened
                    new.opened()
                traits = turn_traits(self._options, new.pipeline.capabilities)
                keeps_ears = new.form is not None and not new.form.hears
                context.inbox.post(i.PipelineReady(change_id=new.change_id, traits=traits, keeps_ears=keeps_ears))
                await new.not_in("ready")  # within `within` seconds, by the turn machine
                if new.state == "failed" and new.error is not None:
                    raise new.error
            except Exception as error:
                watch.failed(error)
                raise
        if new.state != "dropped":
            new.settle("completed")

    async def _open_for_change(self, new: Successor) -> None:
        """Open the new pipeline beside the present one, if its components are not open already."""
        new.compose(self.pipeline, self.places)
        pipeline, early = new.pipeline, self._early
        if early is not None and early.fits(new, self.pipeline) and not self.is_lost:
            self._early = None
            new.use_early(early)
            return
        self.drop_early()
        is_held = pipeline is self._present.connection.pipeline  # its components were changed since
        parts = self._parts(pipeline) if is_held or new.is_of_components else None
        if parts is None:
            await self._freed(pipeline)
            self._kept.keep_onset()
        new.use(parts or self._own_connection(pipeline))
        await self._open(new.form)

    async def _open(self, form: Form | None) -> None:
        """Open these components, and have them hear the last half second too."""
        assert form is not None
        begins_at = self._context.clock.now() + ONSET_SECONDS
        await form.open(self._options.start_step)
        if form.hears and self.failure is None:
            await anyio.sleep(max(0.0, begins_at - self._context.clock.now()))

    def _parts(self, pipeline: Pipeline) -> PartsOfPresent | None:
        """Return the components of a pipeline as parts of the present connection; None if it needs its own."""
        if self.is_lost:
            return None
        present = self._present
        parts = PartsOfPresent(self._context, present.connection, present.pipeline, pipeline, self._part_lost)
        return parts if parts.is_possible else None

    def _own_connection(self, pipeline: Pipeline) -> OwnConnection:
        return OwnConnection(
            self._context,
            pipeline,
            self._history,
            input_rate=self._input_rate,
            key_terms=self._options.key_terms,
            on_event=self._on_event,
            on_crash=self._on_crash,
        )

    # --- components of an agent whose handoff waits

    def open_early(self, control: PipelineChangeControl) -> Successor | None:
        """Open the components of a change that a handoff will ask for; None if opening them takes no time."""
        parts = self._parts(control.pipeline)
        if parts is None or not parts.hears:
            return None
        self._early = early = Successor(self._context, control.pipeline, control=control)
        early.begin()
        early.use(parts)
        self._context.group.start_soon(self._carry_out_early, early, name=f"opening for {control.agents[-1].id}")
        return early

    async def _carry_out_early(self, early: Successor) -> None:
        call_site.set(None)  # the streams are no part of the code that asks for the handoff, and outlive it
        try:
            with early.scope, strays_as_errors("the opening of an agent's components"):
                await self._open(early.form)
                early.opened()
        except Exception as error:  # noqa: BLE001 - a provider that cannot be had; the handoff reports it
            logger.warning("The components of an agent that is to take over cannot be opened: %s", located(error))
            early.fail(error)
        finally:
            if early.state == "opening":
                early.drop()
            if early.scope.cancel_called:
                self._leave(early)

    def drop_early(self) -> None:
        """Close the components that were opened for a handoff: it is over, or comes to nothing."""
        early, self._early = self._early, None
        if early is not None:
            early.cancel()
            if early.state != "opening":
                self._leave(early)

    # --- effects

    def begin(self, effect: fx.OpenPipeline) -> None:
        """Open that pipeline, beside the one in use."""
        new = self._to_come.get(effect.change_id)
        if new is None:
            fallback = self.pipeline.fallback
            if self.failure is None or fallback is None:
                return  # the change was taken back since
            self._present.count_fallback()
            new = Successor(self._context, fallback, effect.pipeline, effect.change_id)
            self._to_come = {effect.change_id: new, **self._to_come}
        new.begin()
        self._context.group.start_soon(self._carry_out, new, name=f"change to {new.pipeline.name}")

    def take(self, effect: fx.TakePipeline) -> None:
        """Take the open pipeline into use."""
        new = self._to_come.get(effect.change_id)
        if self._context.closing.is_asked or new is None or new.state != "ready":
            return
        del self._to_come[effect.change_id]
        new.note_taken(self.places)
        if new.form is not None and new.form.hears:
            self._reports.leave_recogniser()
        self._serve(new)
        self._turn_taking.take_pipeline(self.pipeline)
        self._ends.note()

    def _serve(self, new: Successor) -> None:
        """Have the successor serve, which hears the audio that was kept for it, and close what it replaces."""
        old = self._present
        new.take_over(old)
        self._present = new
        self._show_present()
        parts = tuple(ComponentRecord(*part) for part in self._context.live.capabilities.components)
        before, after = old.pipeline.name, new.pipeline.name
        self._context.log.note(ev.PipelineChanged, old=before, pipeline=after, components=parts)
        logger.info("The session went from the %s to the %s pipeline", before, after)
        self._kept.play_to(new.connection.connection)
        is_left = isinstance(old.form, OwnConnection) and old.error is None  # and may still report words
        self._leave(old, linger=LATE_WORDS if is_left else 0.0)

    def _show_present(self) -> None:
        live, connection = self._context.live, self._present.connection.connection
        live.capabilities, live.connection = self.pipeline.capabilities, connection
        self._kept.hear_with(connection)

    def drop(self, effect: fx.DropPipeline) -> None:
        """End that change without its pipeline."""
        new = self._to_come.pop(effect.change_id, None)
        if new is not None and new.state == "wanted":
            if effect.reason == "in_use":
                logger.info("The %s pipeline is in use already; nothing changes", new.pipeline.name)
                if new.agents:
                    self.places.take_agents(new.agents)
                new.settle("completed")
            new.cancel()
        elif new is not None:
            if new.is_on_its_way:
                new.drop(effect.reason)
            self._forget_onset()
        self._ends.note()

    def report_loss(self, effect: fx.ReportLoss) -> None:
        """Report the error of a lost pipeline, and keep the caller's audio where nothing hears it any more."""
        lost, event = self._losses.pop(effect.loss_id)
        self._context.report_error(event.error, event.component or "pipeline", is_recovered=effect.goes_on)
        if lost is self._present or lost.is_on_its_way:
            lost.fail(event.error)
        if effect.keeps_audio:
            self._kept.keep_unheard(event.unheard)

    # --- events of pipelines

    def _on_event(self, connection: OwnConnection, event: PipelineEvent) -> None:
        if isinstance(event, PipelineFailed):
            self._context.closing.note(event.error)
            if event.recovered:
                self._reports.failed(event)
            else:
                self._lose(connection, event)
        elif connection is not self._present.form:
            self._reports.take_late(event, connection.connection)
        else:
            event = self._kept.timed(event)
            if isinstance(event, UserSpeechEnded) and self.failure is None:
                self._kept.forget_until(self._context.clock.now() - event.at)
            self._reports.take(event)

    def _on_crash(self, connection: OwnConnection, error: Exception) -> None:
        logger.error("The pipeline ended by an error: %s", describe(error))
        logger.debug("The pipeline ended by an error", exc_info=error)
        self._lose(connection, PipelineFailed(error, False, "pipeline"))

    def _lose(self, connection: OwnConnection, event: PipelineFailed) -> None:
        lost = next((each for each in (self._present, *self._to_come.values()) if each.form is connection), None)
        if lost is None:  # left or dropped: of no use any more
            self._reports.failed(event)
            return
        if lost is self._present:
            for new in list(self._to_come.values()):
                if new.is_on_its_way and isinstance(new.form, PartsOfPresent):  # it gets a connection of its own now
                    self._ask(self._take_back(new.change_id), new_id("change"))
        self._loss_count += 1
        loss_id = f"loss_{self._loss_count}"
        fallback = lost.pipeline.fallback
        named = "" if fallback is None else self._name_of(fallback)
        self._losses[loss_id] = lost, event
        self._context.inbox.post(i.PipelineLost(lost.name, event.component, named, loss_id))

    def _part_lost(self, parts: PartsOfPresent) -> None:
        """Ask for no change to parts that were lost before they took over; of early ones the handoff's change fails."""
        new = next((each for each in self._to_come.values() if each.form is parts), None)
        if new is not None:
            self._context.inbox.post(i.PipelineChangeFailed(new.change_id))

    def _forget_onset(self) -> None:
        if self.failure is None:
            self._kept.forget()

    # --- the end

    def _leave(self, left: Successor, linger: float = 0.0) -> None:
        self._left.add(left)
        left.leave(linger)

    async def _freed(self, pipeline: Pipeline) -> None:
        """Have the connections that this pipeline opened closed at once, and wait; bounded by `CLOSE_LIMIT`."""
        for left in list(self._left):
            if isinstance(left.form, OwnConnection) and left.form.pipeline is pipeline:
                left.hurry()
                await left.not_in("leaving")

    def close(self) -> None:
        """Cancel the changes that are under way, and make no more."""
        self._context.inbox.post(i.PipelineChangesClosed())
        for new in self._to_come.values():
            new.cancel()
        self._ends.note()
        self.drop_early()

    async def aclose(self) -> None:
        """End the pipeline in use, and the pipelines that were left; the caller sets a limit."""
        for left in list(self._left):
            left.hurry()
        try:
            if self._present.form is not None:
                await self._present.form.aclose()
        finally:
            for left in list(self._left):
                await left.not_in("leaving")
