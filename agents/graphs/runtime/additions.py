"""The instructions and tools of a graph's state, for the model that answers."""

from __future__ import annotations

import re
from collections.abc import Awaitable, Callable, Sequence
from itertools import count
from typing import Any

from vivavoce.agents.core.context import Additions
from vivavoce.agents.graphs.graph.intent import Intent
from vivavoce.agents.graphs.graph.state import State
from vivavoce.agents.graphs.intents.classifier import ModelIntents
from vivavoce.agents.tools.context import RunContext
from vivavoce.pipelines.llm.tools import Tool

PREFIX = "intent_"
"""The beginning of the names of tools by which the answering model chooses an intent."""

Choose = Callable[[Intent, RunContext, Any], Awaitable[str]]
"""Takes an intent that the model has chosen, with its slots, and returns the output of the call."""


def additions_of(state: State, intents: Sequence[Intent], choose: Choose) -> Additions:
    """Return the additions of a state in which speech may have these intents."""
    choices: list[Tool[..., Any]] = []
    if isinstance(state.intents, ModelIntents):
        names = {tool.name for tool in state.tools}
        choices = [_choice(intent, _name(intent, names), choose) for intent in intents]
    added = Additions(state.instructions, (*state.tools, *choices))
    for tool in added.tools:
        tool.prepare()
    return added


def _name(intent: Intent, taken: set[str]) -> str:
    """Return the name of the intent's tool, and mark it as taken: two intents may have the same ASCII letters."""
    wanted = PREFIX + re.sub(r"[^A-Za-z0-9_-]+", "_", intent.name)[:50]
    numbered = (wanted if number == 1 else f"{wanted}_{number}" for number in count(1))
    name = next(one for one in numbered if one not in taken)
    taken.add(name)
    return name


def _choice(intent: Intent, name: str, choose: Choose) -> Tool[..., Any]:
    async def with_slots(context: RunContext, slots: Any) -> str:
        return await choose(intent, context, slots)

    async def without_slots(context: RunContext) -> str:
        return await choose(intent, context, None)

    function: Callable[..., Any] = without_slots if intent.slots is None else with_slots
    function.__annotations__ = {"context": RunContext, "return": str}
    if intent.slots is not None:
        function.__annotations__["slots"] = intent.slots
    return Tool(function, name=name, description=_described(intent))


def _described(intent: Intent) -> str:
    about = f": {intent.description}" if intent.description else ""
    examples = "".join(f' "{example}"' for example in intent.examples)
    such = f" For example:{examples}." if examples else ""
    wanted = f"the intent {intent.name!r}{about}"
    return f"Call this, without words before it, when the caller's last words have {wanted}.{such}"
