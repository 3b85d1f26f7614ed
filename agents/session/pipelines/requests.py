"""PipelineRequests: checks and makes the changes that applications, agents and their handoffs ask for."""

from __future__ import annotations

from collections.abc import Sequence

from vivavoce.agents.agent import Agent
from vivavoce.agents.core.context import SessionContext
from vivavoce.agents.memory.budget.meter import BudgetMeter
from vivavoce.agents.session.options import SessionOptions
from vivavoce.agents.session.pipelines.change import PipelineChangeControl
from vivavoce.agents.session.pipelines.switch import PipelineSwitch
from vivavoce.agents.session.wiring import check_flow, check_turns, check_wiring, warn_if_deaf
from vivavoce.agents.speech.flow import FlowRunner
from vivavoce.pipelines.core.checks import check_number
from vivavoce.pipelines.core.errors import ConfigurationError
from vivavoce.pipelines.pipeline import Pipeline
from vivavoce.pipelines.speech import ComponentSet


class PipelineRequests:
    """Asks for changes of the pipeline of one session.

    Args:
        flows: Knows the session's conversation flow.
        meter: Knows the prices of components; None: the session has no budget.
    """

    def __init__(
        self,
        context: SessionContext,
        pipelines: PipelineSwitch,
        flows: FlowRunner,
        options: SessionOptions,
        meter: BudgetMeter | None,
    ) -> None:
        self._context = context
        self._pipelines = pipelines
        self._flows = flows
        self._options = options
        self._meter = meter

    # --- of applications

    def to_pipeline(self, pipeline: Pipeline, within: float) -> PipelineChangeControl:
        """Return a change to that pipeline, to be requested.

        Raises:
            ConfigurationError: It is no pipeline, or `within` is no wait; or the cost has a limit, and a component no
                price.
            CapabilityError: It can neither speak nor answer, or does not go with the session's flow or options.
        """
        self._check(self._context.live.agent, pipeline)
        check_number("within", within, above=0, unit="s")
        warn_if_deaf(pipeline)
        return PipelineChangeControl(pipeline, within)

    def to_components(self, components: ComponentSet, within: float) -> PipelineChangeControl:
        """Return a change to a pipeline with those components, to be requested.

        Raises:
            ConfigurationError: There are none, or `within` is no wait.
            CapabilityError: They do not go with the other components, or with the session's flow or options.
        """
        if not any(components.given()):
            raise ConfigurationError("change_component() needs a component, got none; such as tts=...")
        before = (self._pipelines.to_come or [self._pipelines.pipeline])[-1]
        control = self.to_pipeline(before.having(components), within)
        return PipelineChangeControl(control.pipeline, within, components)

    # --- of agents

    def check_agent(self, agent: Agent) -> None:
        """Refuse an agent whose components do not fit the session's own pipeline.

        Raises:
            ConfigurationError: It is no agent.
            CapabilityError: Its components do not go together with the pipeline's, or with the session's flow.
        """
        check_wiring(agent, self._pipelines.pipeline)
        if any(agent.overrides.given()):
            self._check(agent, self._pipelines.own.having(agent.overrides))

    def begin_for(self, agent: Agent, behind: Sequence[Agent] = ()) -> PipelineChangeControl | None:
        """Ask for the components of an agent, or for the session's own if it has none; None if they are in use.

        Args:
            behind: The agents behind a task, the outermost first: it keeps their components where it has none.
        Raises:
            CapabilityError: They do not go together with the pipeline's.
        """
        components: ComponentSet = agent.overrides
        for other in reversed(behind):
            components = components.over(other.overrides)
        pipeline = self._pipelines.own.having(components)
        if self._meter is not None:
            self._meter.check(pipeline)
        if not self._pipelines.is_changing and pipeline.is_like(self._pipelines.pipeline):
            return None
        within = self._options.speech.hook_timeout
        change = PipelineChangeControl(pipeline, within, components, is_override=True)
        self._pipelines.request(change)
        return change

    async def take_for(self, agent: Agent, behind: Sequence[Agent] = ()) -> Exception | None:
        """Have the components of an agent take over; return the error if they could not.

        The session then goes on with those before, and has reported the error.
        """
        try:
            change = self.begin_for(agent, behind)
        except ConfigurationError as error:  # the pipeline has changed since the agent was checked
            self._context.report_error(error, "pipeline", is_recovered=True)
            return error
        if change is None:
            return None
        await change.done.wait()  # bounded: `start_step` and tries for the opening, `hook_timeout` for the moment
        return change.error

    def _check(self, agent: Agent, pipeline: Pipeline) -> None:
        check_wiring(agent, pipeline)
        check_flow(self._flows.flow, pipeline)
        check_turns(self._options, pipeline)
        if self._meter is not None:
            self._meter.check(pipeline)
