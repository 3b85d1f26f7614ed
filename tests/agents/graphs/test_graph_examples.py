"""The checks of the examples of intents: a template whose places do not fit the model of its slots."""

from __future__ import annotations

from typing import Any

import pytest
from pydantic import AliasChoices, AliasPath, BaseModel, ConfigDict, Field, RootModel, create_model, model_validator

from vivavoce.agents.graphs.graph.state_graph import StateGraph
from vivavoce.agents.graphs.intents.classifier import IntentMatch, ModelIntents
from vivavoce.agents.graphs.intents.patterns import PatternIntents
from vivavoce.agents.testing import run_virtual
from vivavoce.pipelines.core.errors import GraphError
from vivavoce.pipelines.llm.chat_context import ChatContext


class Table(BaseModel):
    """A table."""

    count: int
    day: str = ""


class Aliased(BaseModel):
    """Fields that a text reaches by other names."""

    count: int = Field(alias="people")
    day: str = Field(default="", validation_alias=AliasChoices("on", AliasPath("days", 0)))


class EitherName(Aliased):
    """Fields that have both names."""

    model_config = ConfigDict(validate_by_name=True)


class OwnName(Aliased):
    """Fields whose aliases do not count."""

    model_config = ConfigDict(validate_by_name=True, validate_by_alias=False)


class Strict(BaseModel):
    """Takes its own places only."""

    model_config = ConfigDict(extra="forbid")

    count: int = 2


class Open(BaseModel):
    """Takes any places."""

    model_config = ConfigDict(extra="allow")


class Prepared(BaseModel):
    """Makes its field of another one."""

    count: int

    @model_validator(mode="before")
    @classmethod
    def counted(cls, given: Any) -> Any:
        """Take the people as the count."""
        return {"count": given["people"]}


class Judged(Table):
    """Has a validator that sees the ready object only."""

    @model_validator(mode="after")
    def fits(self) -> Judged:
        """Take any."""
        return self


def graph_of(example: str, slots: type[BaseModel] | None, **options: Any) -> StateGraph:
    """A graph with one intent, which leads to the end."""
    graph = StateGraph(options.pop("intents", PatternIntents()))
    begin, end = graph.new_state("begin", initial=True, **options), graph.new_state("end")
    begin.when_intent_matched(graph.new_intent("book", ["book a table", example], slots=slots)).go_to(end)
    return graph


def fault_of(example: str, slots: type[BaseModel] | None) -> str:
    """Return the only fault of such a graph."""
    with pytest.raises(GraphError) as raised:
        graph_of(example, slots).check()
    (fault,) = raised.value.findings
    return fault


def classified(text: str, graph: StateGraph) -> IntentMatch | None:
    """Return the verdict of `PatternIntents` over a text."""
    return run_virtual(PatternIntents().classify(text, graph.intents, ChatContext()))


def test_a_place_without_a_field_is_a_fault_with_the_fields_that_there_are_if_a_needed_one_lacks_its_place() -> None:
    assert fault_of("a table for {people}", Table) == (
        "intent 'book': the example 'a table for {people}' names {people}, but Table has {count}, {day}; "
        "name the places as its fields"
    )


@pytest.mark.parametrize(
    ("example", "slots", "said"),
    [
        ("a table for {people} at {time}", Table, "names {people}, {time}, but Table has {count}, {day};"),
        ("{people} or {people}", Table, "names {people}, but Table has"),
        ("a table for {count}", Aliased, "names {count}, but Aliased has {people}, {on};"),
        ("a table for {people}", OwnName, "names {people}, but OwnName has {count}, {day};"),
        ("a table for {people}", Judged, "names {people}, but Judged has {count}, {day};"),
        ("for {count} at {time}", Strict, "names {time}, but Strict has {count};"),
        ("at {time}", create_model("Empty", __base__=Strict), "names {time}, but Empty has {count};"),
        ("at {time}", create_model("Bare", __config__=ConfigDict(extra="forbid")), "but Bare has no fields;"),
    ],
)
def test_a_field_counts_by_the_names_that_pydantic_takes(example: str, slots: type[BaseModel], said: str) -> None:
    assert said in fault_of(example, slots)


@pytest.mark.parametrize(
    ("example", "slots"),
    [
        ("a table for {count}", Table),
        ("a table for {people} on {on}", Aliased),
        ("a table for {people} on {days}", Aliased),
        ("a table for {people} on {day}", EitherName),
        ("a table for {count} on {on}", EitherName),
        ("a table for {count} on {day}", OwnName),
        ("a table for {people}", Open),
        ("a table for {people}", Prepared),
        ("a table for {people}", RootModel[dict[str, str]]),
    ],
)
def test_places_that_the_model_takes_pass_without_a_warning(example: str, slots: type[BaseModel]) -> None:
    assert graph_of(example, slots).check() == ()


def test_a_template_without_a_place_for_a_needed_field_is_a_warning_for_it_never_matches() -> None:
    graph = graph_of("on {day}", Table)
    assert graph.check() == (
        "intent 'book': the example 'on {day}' has no {count}, which Table needs, so it never matches; "
        "add the place, or give the field a default",
    )
    assert classified("on monday", graph) is None


@pytest.mark.parametrize(
    ("example", "text", "slots", "unkept", "values"),
    [
        ("in the name of {name} for {count}", "in the name of Ann for 4", Table, "{name}", {"count": 4, "day": ""}),
        ("{count} at {time} by {name}", "4 at noon by train", Table, "{time}, {name}", {"count": 4, "day": ""}),
        ("a table for {people}", "a table for 4", create_model("Empty"), "{people}", {}),
    ],
)
def test_a_place_without_a_field_is_a_warning_where_the_template_matches_without_it(
    example: str, text: str, slots: type[BaseModel], unkept: str, values: dict[str, Any]
) -> None:
    graph = graph_of(example, slots)
    them = "those fields" if "," in unkept else "that field"
    assert graph.check() == (
        f"intent 'book': the words at {unkept} of the example {example!r} are not kept; give {slots.__name__} {them}",
    )
    match = classified(text, graph)
    assert match is not None
    assert match.slots is not None
    assert (match.score, match.slots.model_dump()) == (1.0, values)


def test_a_model_that_forbids_other_places_refuses_the_words_of_such_a_template() -> None:
    assert classified("for 4 at noon", graph_of("for {count} at {time}", Strict)) is None


def test_a_place_of_an_intent_without_slots_is_a_warning_for_its_words_are_not_kept() -> None:
    assert graph_of("for {count} people", None).check() == (
        "intent 'book': the words at {count} of the example 'for {count} people' are not kept; "
        "give the intent slots=Model with that field",
    )


def test_examples_that_no_pattern_judges_are_words_for_a_model_and_may_hold_anything() -> None:
    assert graph_of("a table for {people}", Table, intents=ModelIntents()).check() == ()
    graph = graph_of("a table for {people}", Table, intents=ModelIntents())
    graph.new_intent("unused", ["for {x}"], slots=Table)
    other = graph.new_state("other", intents=PatternIntents())
    other.set_global(graph.new_intent("hours", ["when are you open"]))
    other.body(lambda session: None)
    assert graph.check() == ()


def test_the_examples_of_a_global_intent_are_judged_in_every_state() -> None:
    graph = graph_of("book", None)
    state = graph.new_state("size")
    state.body(lambda session: None)
    state.set_global(graph.new_intent("size", ["we are {people}"], slots=Table))
    with pytest.raises(GraphError, match=r"intent 'size': the example 'we are \{people\}' names \{people\}"):
        graph.check()
