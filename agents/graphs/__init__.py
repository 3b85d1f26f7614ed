"""Conversation graphs: a call follows states and transitions that are checked beforehand.

* `graph`: `StateGraph`, the description that sessions share, and its checks.
* `machine`: decides, pure: which transition an event takes, which body runs, when a timer is due.
* `trace`: the steps of `machine` in the session's trace, and their replay.
* `intents`: who judges the intent of the caller's words.
* `runtime`: the graph of a session at work, and `session.graph`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from vivavoce.pipelines.core.lazy import lazy_names

if TYPE_CHECKING:
    from vivavoce.agents.graphs.graph.intent import Intent
    from vivavoce.agents.graphs.graph.state import State
    from vivavoce.agents.graphs.graph.state_graph import StateGraph
    from vivavoce.agents.graphs.intents.classifier import IntentClassifier, IntentMatch, ModelIntents
    from vivavoce.agents.graphs.intents.llm_intents import LLMIntents
    from vivavoce.agents.graphs.intents.patterns import PatternIntents
    from vivavoce.agents.graphs.options import GraphOptions
    from vivavoce.agents.graphs.runtime.session_graph import SessionGraph
    from vivavoce.agents.records import GraphEvent
    from vivavoce.pipelines.core.errors import GraphError

_PLACES = {
    "vivavoce.agents.records": "GraphEvent",
    "vivavoce.agents.graphs.graph.intent": "Intent",
    "vivavoce.agents.graphs.graph.state": "State",
    "vivavoce.agents.graphs.graph.state_graph": "StateGraph",
    "vivavoce.agents.graphs.intents.classifier": "IntentClassifier IntentMatch ModelIntents",
    "vivavoce.agents.graphs.intents.llm_intents": "LLMIntents",
    "vivavoce.agents.graphs.intents.patterns": "PatternIntents",
    "vivavoce.agents.graphs.options": "GraphOptions",
    "vivavoce.agents.graphs.runtime.session_graph": "SessionGraph",
    "vivavoce.pipelines.core.errors": "GraphError",
}

__all__ = [
    "GraphError",
    "GraphEvent",
    "GraphOptions",
    "Intent",
    "IntentClassifier",
    "IntentMatch",
    "LLMIntents",
    "ModelIntents",
    "PatternIntents",
    "SessionGraph",
    "State",
    "StateGraph",
]

if not TYPE_CHECKING:
    __getattr__, __dir__ = lazy_names(__name__, _PLACES)
