"""ComponentPlaces: the session's own pipeline, and the components that agents have in place of its."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import reduce

from vivavoce.agents.agent import Agent
from vivavoce.pipelines.core.errors import CapabilityError
from vivavoce.pipelines.pipeline import Pipeline, having
from vivavoce.pipelines.speech import ComponentSet, but, only, over


@dataclass(slots=True)
class _Place:
    """An agent that has the conversation, or stands behind a task, and its components."""

    agent: Agent
    components: ComponentSet


class ComponentPlaces:
    """Knows which components serve in an agent's time, and which the pipeline gets back when the agent hands off.

    The components of an agent hold for it and for its tasks, unless a task has its own. A component of
    `update_components()` takes the place of the one that it replaces: the agent's, or the task's, for the time of that
    agent or task, also while another task has the conversation meanwhile; else the session's own.

    A pipeline of `update_pipeline()`, and a fallback, are the session's own as they are, until the next handoff.
    """

    def __init__(self, pipeline: Pipeline) -> None:
        self.pipeline = pipeline
        self._places: list[_Place] = []
        """The outermost first."""

    def with_agents(self, agents: Sequence[Agent]) -> Pipeline:
        """Return the session's own pipeline with the components of these agents.

        Args:
            agents: The one that has the conversation, or is to have it, last; before it those behind the task.
        Raises:
            CapabilityError: They do not go together.
        """
        return having(self.pipeline, _folded(map(self._components, agents)))

    def take_agents(self, agents: Sequence[Agent]) -> None:
        """Note that the components of these agents serve from here on."""
        self._places = [_Place(agent, self._components(agent)) for agent in agents]

    def keep_for(self, agents: Sequence[Agent]) -> None:
        """Note that these agents talk; the last one keeps the components before, as its own cannot be had."""
        left = _folded(place.components for place in self._places if all(place.agent is not one for one in agents))
        last = agents[-1]
        self._places = [_Place(agent, left if agent is last else self._components(agent)) for agent in agents]

    def begin(self, pipeline: Pipeline) -> None:
        """Note that the session goes on with that pipeline as it is."""
        self.pipeline = pipeline
        self._places = [_Place(place.agent, ComponentSet()) for place in self._places]

    def take_components(self, components: ComponentSet, present: Pipeline) -> None:
        """Note that these components replaced others of their kinds; with them the pipeline is `present`."""
        for place in reversed(self._places):
            replaced = only(components, place.components)
            place.components = over(replaced, place.components)
            components = but(components, replaced)
        try:
            self.pipeline = having(self.pipeline, components)
        except CapabilityError:  # they go together with the agents' components only
            self.begin(present)

    def _components(self, agent: Agent) -> ComponentSet:
        return next((place.components for place in self._places if place.agent is agent), agent.overrides)


def _folded(sets: Iterable[ComponentSet]) -> ComponentSet:
    """Return the components of all; of one kind, those of the last."""
    return reduce(lambda before, own: over(own, before), sets, ComponentSet())
