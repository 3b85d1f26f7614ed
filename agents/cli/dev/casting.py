"""Casting: the agent that had a conversation, made of the new code by its id."""

from __future__ import annotations

import logging
from collections.abc import Iterable, Iterator, Mapping

from vivavoce.agents.agent import Agent
from vivavoce.pipelines.core.errors import ConfigurationError, describe

logger = logging.getLogger(__name__)


def loaded_agents(agents: Mapping[str, type[Agent]]) -> list[type[Agent]]:
    """Return the app's agents, then those of the other modules that it has loaded.

    Args:
        agents: Those of the app's file, by name.
    """
    own = list(agents.values())
    others = [kind for kind in _below(Agent) if not kind.__module__.startswith("vivavoce.") and kind not in own]
    return list(dict.fromkeys([*own, *others]))


def find_agent(wanted: str, kinds: Iterable[type[Agent]]) -> Agent:
    """Return an agent with that id. Those whose class has that name are made first: it is the id by default.

    Raises:
        ConfigurationError: There is none that can be made without arguments.
    """
    failed: dict[str, Exception] = {}
    for kind in sorted(kinds, key=lambda kind: kind.__name__ != wanted):
        try:
            agent = kind()  # type: ignore[call-arg]  # an app's agents take what they like
        except Exception as error:  # noqa: BLE001 - the app's own code; it is named if no agent is found
            logger.debug("%s() cannot be made for a reload: %s", kind.__name__, describe(error))
            failed[kind.__name__] = error
            continue
        if agent.id == wanted:
            return agent
    if wanted in failed:
        problem = f"{wanted}() raised {describe(failed[wanted], quotes_foreign=True)}"
        raise ConfigurationError(f"{problem}; give its arguments defaults, so that a reload can make it")
    without = f" ({', '.join(failed)} cannot be made so; give its arguments defaults)" if failed else ""
    raise ConfigurationError(
        f"the new code has no agent with the id {wanted!r}: a reload makes each class of agents without arguments, and "
        f"none had this id{without}; have a class give it by default"
    )


def _below(kind: type[Agent]) -> Iterator[type[Agent]]:
    for each in reversed(kind.__subclasses__()):  # the newest one, where a decorator has made a class anew
        yield each
        yield from _below(each)
