"""Checks whether an agent and its pipeline fit a conversation graph."""

from __future__ import annotations

from collections.abc import Iterator

from vivavoce.agents.agent import Agent, AgentControl
from vivavoce.agents.graphs.machine.rules import GraphRules
from vivavoce.pipelines.core.errors import CapabilityError
from vivavoce.pipelines.pipeline import Pipeline, is_silent


def check_turns(rules: GraphRules, pipeline: Pipeline) -> None:
    """Refuse a pipeline, or a fallback of it, whose model may answer before the graph has judged the words.

    Raises:
        CapabilityError: Speech may move the graph before the answer, and the pipeline's server decides turns, or its
            transcripts may come after the answer.
    """
    if not any(state.judges_speech for state in rules.states.values()):
        return
    remedy = ""
    if pipeline.capabilities.decides_turns == "remote":
        remedy = "switch off the turn detection of the model's server"
    elif pipeline.capabilities.hears_audio:
        remedy = "give it an stt, since the model's transcripts may come after the answer"
    if remedy:
        remedy += ", or let ModelIntents() choose, without fallback bodies and without when_event() for turns"
        raise CapabilityError(pipeline.name, "a graph that judges speech before the answer", remedy)
    if pipeline.fallback is not None:
        check_turns(rules, pipeline.fallback)


def check_model(rules: GraphRules, agent: Agent, pipeline: Pipeline) -> None:
    """Refuse a pipeline, or a fallback of it, without the model that is to choose the intents of the graph.

    An agent with an `llm_stage` of its own may answer, and choose, without the pipeline's model.

    Raises:
        CapabilityError: A state leaves its intents to the model that answers, and the pipeline has none.
    """
    if AgentControl.of(agent).overrides("llm_stage"):
        return
    states = [name for name, state in rules.states.items() if state.intents and not state.has_classifier]
    if states and not pipeline.capabilities.can_reply:
        where = f"state{'s' * (len(states) > 1)} {', '.join(map(repr, states))}"
        raise CapabilityError(
            pipeline.name,
            "a graph whose intents the model chooses",
            f"in the {where} ModelIntents() has it choose; give the pipeline an llm, or the graph a classifier that "
            "needs none: StateGraph(PatternIntents())",
        )
    if pipeline.fallback is not None:
        check_model(rules, agent, pipeline.fallback)


def warnings_of(rules: GraphRules, agent: Agent, pipeline: Pipeline) -> Iterator[str]:
    """Yield a warning where a pipeline, or a fallback of it, takes words and has no model, and the graph has states
    without a fallback body: words that no transition takes get no answer there.

    An agent with an `llm_stage` of its own may answer without the pipeline's model. It is no error: the body of such a
    state may end the call, or its transitions may take all that callers say.
    """
    if AgentControl.of(agent).overrides("llm_stage"):
        return
    takes_words = pipeline.capabilities.can_listen or is_silent(pipeline)
    if takes_words and not pipeline.capabilities.can_reply and (states := _unanswered(rules)):
        yield (
            f"words that no transition takes get no answer in {', '.join(map(repr, states))}, without a fallback body "
            "and without a model, and max_errors such turns in a row end the call; give each of them "
            "set_fallback_body(f), or the pipeline an llm"
        )
    if pipeline.fallback is not None:
        yield from warnings_of(rules, agent, pipeline.fallback)


def _unanswered(rules: GraphRules) -> list[str]:
    """Return the states in which words may come that neither a transition nor a fallback body takes."""
    passing = {rule.target for state in rules.states.values() for rule in state.rules if rule.is_global}
    return [
        name
        for name, state in rules.states.items()
        if not (state.has_fallback or state.takes_all_speech or (state.is_end and name in passing))
    ]
