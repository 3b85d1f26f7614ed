"""Casting: the agent that had a conversation, made of the new code by its id."""

from __future__ import annotations

import inspect
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
    failed: dict[str, str] = {}
    for kind in sorted(kinds, key=lambda kind: kind.__name__ != wanted):
        try:
            agent = kind()  # type: ignore[call-arg]  # an app's agents take what they like
        except Exception as error:  # noqa: BLE001 - the app's own code; it is named if no agent is found
            logger.debug("%s() cannot be made for a reload: %s", kind.__name__, describe(error))
            failed[kind.__name__] = _problem(kind, error)
            continue
        if agent.id == wanted:
            return agent
    if wanted in failed:
        raise ConfigurationError(f"{failed[wanted]}, then a reload can continue with it.")
    remedy = ". ".join(failed.values()) or f"Have a class of agents give the id {wanted!r} by default"
    raise ConfigurationError(
        f"{remedy}. A reload makes each agent without arguments, and none that it made has the id {wanted!r}."
    )


def _problem(kind: type[Agent], error: Exception) -> str:
    """Return why a class cannot be made without arguments, and the remedy."""
    try:
        parameters = tuple(inspect.signature(kind).parameters.values())
    except ValueError:  # a class made by other means than a class statement
        parameters = ()
    variable = (inspect.Parameter.VAR_POSITIONAL, inspect.Parameter.VAR_KEYWORD)
    needed = [f"`{one.name}`" for one in parameters if one.default is one.empty and one.kind not in variable]
    if not needed:
        return f"{kind.__name__}() raised {describe(error, quotes_foreign=True)}: mend it"
    what, them = ("argument", "it a default") if len(needed) == 1 else ("arguments", "them defaults")
    return f"{kind.__name__} needs the {what} {' and '.join(needed)}: give {them}"


def _below(kind: type[Agent]) -> Iterator[type[Agent]]:
    for each in reversed(kind.__subclasses__()):  # the newest one, where a decorator has made a class anew
        yield each
        yield from _below(each)
