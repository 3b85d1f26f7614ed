"""PipelineRequests: checks and makes the changes that applications, agents and their handoffs ask for.

The checks whether agent, pipeline and flow fit each other stand here too, for a session that is made as for a change.
"""

from __future__ import annotations

from collections.abc import Sequence

from vivavoce.agents.agent import Agent, check_agent
from vivavoce.agents.core.context import SessionContext
from vivavoce.agents.extension.attachments import Attachments
from vivavoce.agents.graphs.options import check_answers
from vivavoce.agents.history.history import HistoryControl
from vivavoce.agents.session.components.successor import PipelineChangeControl, Successor
from vivavoce.agents.session.components.switch import PipelineSwitch
from vivavoce.agents.session.options import SessionOptions, extensions_of
from vivavoce.agents.session.turns.turn_taking import TurnTaking
from vivavoce.agents.speech.flow import ConversationFlow, FlowControl, FlowRunner, check_flow
from vivavoce.agents.speech.seeing import check_sees
from vivavoce.pipelines.core.checks import check_number
from vivavoce.pipelines.core.errors import ConfigurationError
from vivavoce.pipelines.pipeline import Pipeline, check_pipeline, ears_of, having, is_like, warn_if_deaf
from vivavoce.pipelines.silent import SilentPipeline
from vivavoce.pipelines.speech import ComponentSet, given

EARS_WITHIN = 60.0
"""Seconds within which a silence must come for the components that hear the caller again, when a task is over."""


class PipelineRequests:
    """Asks for changes of the pipeline of one session, and of the way that its agents take turns.

    An agent is given as `agents`: it is the last, and before it stand the agents behind a task, the outermost first,
    whose components and options hold where it has none.

    Args:
        pipeline: The first one.
        flows: Knows the session's conversation flow.
        extensions: Check the pipelines that are to come.
    """

    def __init__(
        self,
        context: SessionContext,
        pipeline: Pipeline,
        history: HistoryControl,
        flows: FlowRunner,
        extensions: Attachments,
        *,
        options: SessionOptions,
    ) -> None:
        self._context = context
        self._turn_taking = TurnTaking(context, options)
        self.switch = PipelineSwitch(context, pipeline, history, self._turn_taking, options=options)
        """Has the pipelines in use, and carries out the changes."""
        self._flows = flows
        self._options = options
        self._extensions = extensions
        self._ears: PipelineChangeControl | None = None
        """The change by which the agent behind a task gets back the components that hear the caller."""
        self._owed: Sequence[Agent] = ()
        """That agent, behind its own agents, while a handoff has their place."""
        self._lacking: PipelineChangeControl | None = None
        """The change of a handoff that kept them from it."""

    # --- of applications

    def to_pipeline(self, pipeline: Pipeline, within: float) -> PipelineChangeControl:
        """Return a change to that pipeline, to be requested; raises as `AgentSession.update_pipeline`."""
        self._check(self._turn_taking.agents or (self._context.live.agent,), pipeline)
        self._turn_taking.check_for_all(pipeline)
        check_number("within", within, above=0, unit="s")
        warn_if_deaf(pipeline)
        self._turn_taking.warn((self._context.live.agent,), pipeline)
        return PipelineChangeControl(pipeline, within)

    def to_components(self, components: ComponentSet, within: float) -> PipelineChangeControl:
        """Return a change to a pipeline with those components; raises as `AgentSession.update_components`."""
        if not any(given(components)):
            raise ConfigurationError(
                "update_components() needs a component, got none; such as tts=.... None keeps the present one: "
                "to go on without it, call update_pipeline() with a pipeline that has none"
            )
        before = (self.switch.to_come or [self.switch.pipeline])[-1]
        control = self.to_pipeline(having(before, components), within)
        return PipelineChangeControl(control.pipeline, within, components)

    def change_flow(self, flow: ConversationFlow | None) -> None:
        """Have that flow answer from the caller's next turn on; raises as `AgentSession.update_flow`."""
        check_answers(flow, extensions_of(self._options))
        for pipeline in (self.switch.pipeline, *self.switch.to_come):
            check_flow(flow, pipeline)
        self._context.check_not_closed()
        if flow is not None and not self._context.is_unstarted:
            FlowControl.of(flow).attach(self._context.session)
        self._context.inbox.on_loop(lambda: self._flows.change_to(flow))

    # --- of agents

    def check_agent(self, agent: Agent, behind: Sequence[Agent] = ()) -> None:
        """Refuse an agent whose overrides do not fit the session's own pipeline, or one that an extension refuses.

        Raises:
            ConfigurationError: It is no agent.
            CapabilityError: Its components do not go together with the pipeline's, or with the session's flow; or the
                pipeline cannot take turns by its options.
        """
        check_agent(agent)
        overrides, agents = agent.overrides, (*behind, agent)
        pipeline = self.switch.places.with_agents(agents)
        if any(given(overrides)):
            self._check(agents, pipeline)
        else:
            self._check_fits(agents, pipeline)
            if overrides.endpointing is None:
                return
        self._turn_taking.check(agents, pipeline)
        self._turn_taking.warn(agents, pipeline)

    def open_early(self, agents: Sequence[Agent]) -> Successor | None:
        """Open the components of an agent whose handoff was asked for; None if the handoff needs no wait for them."""
        switch = self.switch
        self._owed = self._withdraw_ears(agents) or self._owed
        switch.drop_early()
        if switch.is_changing or switch.is_lost or self._context.closing.is_asked:
            return None
        try:
            pipeline = switch.places.with_agents(agents)
        except ConfigurationError:  # the handoff reports it
            return None
        if is_like(pipeline, switch.pipeline):
            return None
        return switch.open_early(PipelineChangeControl(pipeline, agents=agents))

    def handoff_ended(self) -> None:
        """Give back the components that a handoff kept from their agent, if it came to nothing."""
        if self._owed and not self._context.closing.is_asked:
            self._give_ears_back(self._owed)

    def begin_for(
        self, agents: Sequence[Agent], *, keeps_ears: bool = False, within: float | None = None
    ) -> PipelineChangeControl | None:
        """Ask for the components of an agent, or for the session's own if it has none; None if they are in use.

        Args:
            keeps_ears: Whether the components that hear the caller stay all the same; such a change goes before those
                that do not serve yet.
            within: Seconds within which a moment must come; by default as long as a hook.
        Raises:
            CapabilityError: They do not go together with the pipeline's.
        """
        places, in_use = self.switch.places, self.switch.pipeline
        self._owed = self._withdraw_ears(agents) or self._owed
        pipeline = places.with_agents(agents)
        if keeps_ears:
            pipeline = having(pipeline, ears_of(in_use))
        self._check_fits(agents, pipeline)
        owed, self._owed = self._owed, ()
        is_quiet = keeps_ears or not self.switch.is_changing
        if not is_quiet and not any(any(given(agent.overrides)) for agent in agents):
            is_quiet = not self.switch.changes_for_agents  # the application's changes hold for this agent as well
        if is_quiet and is_like(pipeline, in_use):
            places.take_agents(agents)
            return None
        limit = self._options.speech.hook_timeout if within is None else within
        change = PipelineChangeControl(pipeline, limit, agents=agents, keeps_ears=keeps_ears)
        if owed and within is None:
            self._lacking = change
        self.switch.request(change)
        return change

    async def take_for(self, agents: Sequence[Agent], *, keeps_ears: bool = False) -> Exception | None:
        """Have the components of an agent take over, as `begin_for`; return the error if they could not.

        The session then goes on with those before, and has reported the error.
        """
        try:
            change = self.begin_for(agents, keeps_ears=keeps_ears)
        except ConfigurationError as error:  # the pipeline has changed since the agent was checked
            self._context.report_error(error, "pipeline", is_recovered=True)
            self.switch.places.keep_for(agents)
            if self._owed:
                self._give_ears_back(agents)
            return error
        return None if change is None else await self.taken_for(agents, change)

    async def taken_for(self, agents: Sequence[Agent], change: PipelineChangeControl) -> Exception | None:
        """Wait for the end of that change to the components of an agent; return the error if they could not be had."""
        await change.done.wait()  # bounded: `start_step` and tries for the opening, `hook_timeout` for the moment
        if change.error is not None:
            self.switch.places.keep_for(agents)
            if change is self._lacking and not self._context.closing.is_asked:
                self._give_ears_back(agents)
        return change.error

    async def give_back(self, agents: Sequence[Agent]) -> None:
        """Have the components of the agent behind a task take over again; errors are reported.

        Those that hear the caller follow as soon as they are open, and nobody speaks. Until then the agent hears with
        the task's, so that the caller does not wait in silence. If they cannot be had, the next handoff tries again. If
        a task or an agent with others comes before, they are wanted no more.
        """
        if self._ears is not None:
            self.switch.withdraw(self._ears)
        if not self.switch.is_lost:  # else its components come behind the pipeline that follows
            await self.take_for(agents, keeps_ears=True)
        self._give_ears_back(agents)

    def _give_ears_back(self, agents: Sequence[Agent]) -> None:
        try:
            self._ears = self.begin_for(agents, within=EARS_WITHIN)
        except ConfigurationError as error:
            self._context.report_error(error, "pipeline", is_recovered=True)
            self.switch.places.keep_for(agents)
            self._owed = ()

    def _withdraw_ears(self, agents: Sequence[Agent]) -> Sequence[Agent]:
        """Give no ears back where these agents have others; return the agents that then lack theirs."""
        change = self._ears
        if change is None or change.is_done:
            return ()
        try:
            wanted = self.switch.places.with_agents(agents)
        except ConfigurationError:  # their handoff reports it
            return ()
        if ears_of(wanted) != ears_of(change.pipeline):
            self.switch.withdraw(change)
        return change.agents if change.is_done else ()

    def take_turns(self, agents: Sequence[Agent]) -> Exception | None:
        """Have the turn-taking options of an agent hold; return the error, which was reported, if they cannot."""
        return self._turn_taking.take(agents, self.switch.pipeline)

    def _check(self, agents: Sequence[Agent], pipeline: Pipeline) -> None:
        """Refuse a pipeline that does not fit the last of these agents."""
        check_pipeline(pipeline)
        check_flow(self._flows.flow, pipeline)
        self._check_fits(agents, pipeline)

    def _check_fits(self, agents: Sequence[Agent], pipeline: Pipeline) -> None:
        self._extensions.check(agents[0], pipeline)
        check_sees(self._context.live, pipeline)


def pipeline_for(
    agent: Agent, pipeline: Pipeline | None, flow: ConversationFlow | None, options: SessionOptions
) -> Pipeline:
    """Return the checked pipeline of a session with that agent and that flow; that of texts alone if none is given."""
    pipeline = SilentPipeline() if pipeline is None else pipeline
    check_agent(agent, may_be_task=False)
    check_pipeline(pipeline)
    warn_if_deaf(pipeline)
    check_answers(flow, extensions_of(options))
    check_flow(flow, pipeline)
    return pipeline
