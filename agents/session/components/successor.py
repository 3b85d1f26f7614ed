"""Successor: a pipeline on its way into use, in use, or left; PipelineChangeControl: the change that asked for it."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Literal

import anyio

from vivavoce.agents.agent import Agent
from vivavoce.agents.core.component_places import ComponentPlaces
from vivavoce.agents.core.context import SessionContext
from vivavoce.agents.core.pipeline_change import ChangeState, PipelineChange, PipelineChangeOutcome
from vivavoce.agents.core.speech_handle import holds_floor
from vivavoce.agents.session.components.forms import Form, OwnConnection, PartsOfPresent
from vivavoce.pipelines.core.changes import Changes
from vivavoce.pipelines.core.errors import SessionError, describe
from vivavoce.pipelines.core.ids import new_id
from vivavoce.pipelines.core.incidents import FellBack, passed_over
from vivavoce.pipelines.core.owned_call import OwnedCall
from vivavoce.pipelines.pipeline import Pipeline, ears_of, having, is_like
from vivavoce.pipelines.speech import ComponentSet

CLOSE_LIMIT = 5.0
"""Seconds that closing one may take."""

State = Literal["wanted", "opening", "ready", "serving", "lost", "failed", "dropped", "leaving", "closed"]

_NEXT: dict[State, tuple[State, ...]] = {
    "wanted": ("opening", "dropped"),
    "opening": ("ready", "serving", "failed", "dropped"),  # serving: the session's first, which opens as it serves
    "ready": ("serving", "failed", "dropped", "leaving", "closed"),  # the last two: components opened early
    "serving": ("lost", "leaving"),
    "lost": ("lost", "leaving"),  # it serves until another one takes over
    "failed": ("leaving", "closed"),
    "dropped": ("leaving",),
    "leaving": ("closed",),
    "closed": (),
}


class PipelineChangeControl(ChangeState):
    """The state of one change, which the session changes and its `change` shows.

    Args:
        within: Seconds within which a moment of silence must come.
        components: Those that take the place of the pipeline's that is in use when the change begins, which `pipeline`
            is made of.
        agents: Those whose components do, the outermost first. With neither, `pipeline` is the application's.
        keeps_ears: Whether the components that hear the caller stay all the same.
    """

    def __init__(
        self,
        pipeline: Pipeline,
        within: float = 60.0,
        components: ComponentSet | None = None,
        *,
        agents: Sequence[Agent] = (),
        keeps_ears: bool = False,
    ) -> None:
        super().__init__(new_id("change"))
        self.pipeline = pipeline
        self.components = components
        self.agents = tuple(agents)
        self.keeps_ears = keeps_ears
        self.within = within
        self.change = PipelineChange(self)

    async def wait(self) -> None:
        if not self.is_done and holds_floor():
            raise SessionError(
                f"the change to the {self.pipeline.name} pipeline cannot be awaited here: it happens after this code, "
                "in the next silence; return from it"
            )
        await self.done.wait()

    @property
    def is_of_components(self) -> bool:
        """Whether components change, and not the whole pipeline."""
        return self.components is not None or bool(self.agents)

    def begin_from(self, present: Pipeline, places: ComponentPlaces) -> Pipeline:
        """Return the pipeline to open, now that the change begins and `present` is in use.

        Raises:
            CapabilityError: The components do not go together with those of the pipeline.
        """
        if self.agents:
            self.pipeline = places.with_agents(self.agents)
            if self.keeps_ears:
                self.pipeline = having(self.pipeline, ears_of(present))
        elif self.components is not None:
            self.pipeline = having(present, self.components)
        return self.pipeline

    def taken(self, places: ComponentPlaces) -> None:
        """Note in `places` that the pipeline has taken over."""
        if self.agents:
            places.take_agents(self.agents)
        elif self.components is not None:
            places.take_components(self.components, self.pipeline)
        else:
            places.begin(self.pipeline)


class Successor:
    """The way of one pipeline. `PipelineSwitch` owns it; each of its methods is one step of the way.

    Args:
        name: The pipeline's name for the turn machine.
        change_id: The turn machine's id of the change; empty for the first pipeline, and for components opened early.
        control: The change that was asked for; None for a fallback.
    """

    def __init__(
        self,
        context: SessionContext,
        pipeline: Pipeline,
        name: str = "",
        change_id: str = "",
        control: PipelineChangeControl | None = None,
    ) -> None:
        self.pipeline = pipeline
        self.name = name
        self.change_id = change_id
        self.control = control
        self._context = context
        self.state: State = "wanted"
        self.form: Form | None = None
        """Its components: from `serving` on the connection in use, from `leaving` on those of no more use."""
        self.error: Exception | None = None
        """The error by which it failed."""
        self._scope: anyio.CancelScope | None = None
        self._changes = Changes()
        self._hurried = anyio.Event()

    @property
    def is_on_its_way(self) -> bool:
        """Whether it is being opened, or is open and waits for its moment."""
        return self.state in ("opening", "ready")

    @property
    def agents(self) -> tuple[Agent, ...]:
        """The agents whose components it has, the outermost first; empty if the application asked for it."""
        return () if self.control is None else self.control.agents

    @property
    def is_of_components(self) -> bool:
        """Whether components change, and not the whole pipeline."""
        return self.control is not None and self.control.is_of_components

    @property
    def scope(self) -> anyio.CancelScope:
        """The scope of its opening."""
        assert self._scope is not None, f"the {self.name} pipeline is {self.state}"
        return self._scope

    @property
    def connection(self) -> OwnConnection:
        """The connection of a successor that serves."""
        assert isinstance(self.form, OwnConnection), f"the {self.name} pipeline has no connection, it is {self.state}"
        return self.form

    async def not_in(self, *states: State) -> None:
        """Wait until it is in none of these states."""
        while self.state in states:
            await self._changes.wait()

    # --- on its way

    def begin(self) -> None:
        self._go("opening")
        self._scope = anyio.CancelScope()

    def compose(self, present: Pipeline, places: ComponentPlaces) -> None:
        """Make its pipeline of the components that were asked for; arguments and errors as of `begin_from`."""
        if self.control is not None:
            self.pipeline = self.control.begin_from(present, places)

    def use(self, form: Form) -> None:
        """Have its components in this form."""
        assert self.state == "opening", f"components for the {self.name} pipeline, which is {self.state}"
        self.form = form

    def use_early(self, early: Successor) -> None:
        """Go on with the components that another one opened early.

        Raises:
            Exception: The error by which they cannot be had.
        """
        assert early.form is not None
        self.use(early.form)
        error = early.error or early.form.failure
        early.give_away()
        if error is not None:
            raise error

    def fits(self, new: Successor, present: Pipeline) -> bool:
        """Return whether it has opened, in the connection of `present`, the components of that change to an agent's."""
        is_open = self.state in ("ready", "failed")
        is_of_present = isinstance(self.form, PartsOfPresent) and self.form.before is present
        return is_open and is_of_present and self.agents == new.agents and is_like(new.pipeline, self.pipeline)

    def give_away(self) -> None:
        """Leave its components to another successor."""
        self.form = None
        self._go("closed")

    def opened(self) -> None:
        """Note that it waits for its moment."""
        self._go("ready")

    def fail(self, error: Exception) -> None:
        """Note the error by which it is of no use, or is lost in its service."""
        self._go("lost" if self.state in ("serving", "lost") else "failed")
        self.error = error

    def drop(self, reason: str = "closed") -> None:
        """Note that nothing comes of it, for the reason of a `DropPipeline`."""
        lost = None if self.form is None else self.form.failure
        if reason == "no_moment" and self.control is not None:
            self.fail(SessionError(f"no moment came within {self.control.within:g} s without speech"))
        elif reason == "failed" and lost is not None:
            self.fail(lost)
        else:
            self._go("dropped")

    def release(self) -> PipelineChangeControl:
        """Drop it, and return the change, which goes on elsewhere."""
        control, self.control = self.control, None
        assert control is not None, "a fallback is no change that was asked for"
        self._go("dropped")
        self.cancel()
        return control

    def cancel(self) -> None:
        """Cancel its opening, which drops it, and the change that asked for it."""
        if self._scope is not None:
            self._scope.cancel()
        self.settle("cancelled")

    def settle(self, outcome: PipelineChangeOutcome, error: Exception | None = None) -> None:
        """Set the outcome of the change that asked for it, if that has none."""
        if self.control is not None:
            self.control.set_outcome(outcome, error)

    # --- in use, and after that

    def serve_first(self) -> None:
        """Serve from the session's start on, which opens it."""
        self._go("serving")

    def note_taken(self, places: ComponentPlaces) -> None:
        """Note in `places` that its pipeline takes over."""
        if self.control is None:
            places.begin(self.pipeline)
        else:
            self.control.taken(places)

    def take_over(self, present: Successor) -> None:
        """Serve from here on; the present one keeps the components of no more use, to close them."""
        assert self.form is not None
        self.form.take()
        self._go("serving")
        if isinstance(self.form, PartsOfPresent):
            self.form = present.exchange(self.form)

    def exchange(self, parts: Form) -> Form:
        """Give the connection to a successor that has put parts into it, for the parts that it replaced."""
        connection, self.form = self.connection, parts
        return connection

    def count_fallback(self) -> None:
        """Have the fallback counted for the model that was lost."""
        assert self.error is not None
        parts = {kind: (provider, model) for kind, provider, model in self.pipeline.capabilities.components}
        provider, model = parts.get("realtime_model") or parts.get("llm") or ("", "")
        passed_over(FellBack("pipeline", provider, model, self.error, is_reported=True))

    def leave(self, linger: float = 0.0) -> None:
        """Close its components in the background after `linger` seconds, in which they may still report words.

        Bounded by `CLOSE_LIMIT`; errors are reported.
        """
        self._go("leaving")
        if self.form is None:
            self._go("closed")
        else:
            close = partial(self._close, self.form, linger)
            self._context.group.start_soon(close, name=f"closing a {self.pipeline.name} pipeline")

    def hurry(self) -> None:
        """Close it at once, although it may still report words."""
        self._hurried.set()

    async def _close(self, form: Form, linger: float) -> None:
        raised: list[BaseException] = []
        call = OwnedCall(f"closing the {self.pipeline.name} pipeline", form.aclose, raised.append)
        try:
            with anyio.move_on_after(linger):
                await self._hurried.wait()
            self._context.group.start_soon(call.run, name=call.what)
            await call.finish(CLOSE_LIMIT)
            if not call.is_done or call.is_cut:
                raised.append(SessionError(f"{call.what} took longer than {CLOSE_LIMIT:g} s"))
        finally:
            self._go("closed")
        for error in raised:
            reported = error if isinstance(error, Exception) else SessionError(describe(error))
            self._context.report_error(reported, "pipeline", is_recovered=True)

    def _go(self, state: State) -> None:
        assert state in _NEXT[self.state], f"the {self.name} pipeline goes from {self.state} to {state}"
        self.state = state
        self._changes.note()
