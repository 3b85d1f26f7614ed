"""The checks of the examples of a graph's intents: the places of templates, and the fields of the models for slots."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import TYPE_CHECKING

from vivavoce.agents.graphs.graph.intent import Intent
from vivavoce.agents.graphs.graph.state import State
from vivavoce.agents.graphs.intents.patterns import PatternIntents, places_of
from vivavoce.agents.graphs.machine.rules import OnIntent

if TYPE_CHECKING:
    from pydantic import BaseModel


def example_findings(states: Sequence[State], intents: Sequence[Intent]) -> Iterator[str]:
    """Yield the templates that never match since the model of the slots has other fields: a sentence each.

    A model ignores a place that it has no field for, unless it forbids extras: such a place alone is a warning.
    """
    for intent, example, places in _templates(states, intents):
        model = intent.slots
        if model is None:
            continue
        strange, missing = _misfits(model, places)
        if strange and (missing or model.model_config.get("extra") == "forbid"):
            has = _braced(names[0] for names in _fields(model).values()) or "no fields"
            yield (
                f"intent {intent.name!r}: the example {example!r} names {_braced(strange)}, but {model.__name__} has "
                f"{has}; name the places as its fields"
            )


def example_warnings(states: Sequence[State], intents: Sequence[Intent]) -> Iterator[str]:
    """Yield the templates that never match, and those whose words are not kept; for a graph without faults."""
    for intent, example, places in _templates(states, intents):
        model = intent.slots
        unkept, missing = (places, ()) if model is None else _misfits(model, places)
        if unkept:
            yield (
                f"intent {intent.name!r}: the words at {_braced(unkept)} of the example {example!r} are not kept; give "
                f"{'the intent slots=Model with' if model is None else model.__name__} "
                f"{'that field' if len(unkept) == 1 else 'those fields'}"
            )
        elif missing and model is not None:
            yield (
                f"intent {intent.name!r}: the example {example!r} has no {_braced(missing)}, which {model.__name__} "
                "needs, so it never matches; add the place, or give the field a default"
            )


def _templates(states: Sequence[State], intents: Sequence[Intent]) -> Iterator[tuple[Intent, str, tuple[str, ...]]]:
    """Yield intent, example and places of each template that a `PatternIntents` judges.

    For other classifiers, and for a model, an example is a text like any other.
    """
    judged = [state for state in states if isinstance(state.intents, PatternIntents)]
    triggers = [transition.trigger for state in judged for transition in state.transitions]
    named = {trigger.intent for trigger in triggers if isinstance(trigger, OnIntent)}
    if judged:
        named |= {state.global_intent.name for state in states if state.global_intent is not None}
    for intent in intents:
        for example in intent.examples if intent.name in named else ():
            if places := places_of(example):
                yield intent, example, places


def _takes_any(model: type[BaseModel]) -> bool:
    """Return whether a model may take places that are not fields: as extras, or by a validator before the fields."""
    from pydantic import RootModel

    validators = model.__pydantic_decorators__.model_validators.values()
    is_prepared = any(validator.info.mode != "after" for validator in validators)
    return is_prepared or model.model_config.get("extra") == "allow" or issubclass(model, RootModel)


def _misfits(model: type[BaseModel], places: Sequence[str]) -> tuple[Sequence[str], Sequence[str]]:
    """Return the places for which a model has no field, and the fields that it needs and that have no place."""
    if _takes_any(model):
        return (), ()
    fields = _fields(model)
    known = {name for names in fields.values() for name in names}
    needed = [names for name, names in fields.items() if model.model_fields[name].is_required()]
    strange = [place for place in places if place not in known]
    return strange, [names[0] for names in needed if not set(names) & set(places)]


def _fields(model: type[BaseModel]) -> dict[str, list[str]]:
    """Return, for each field of a model, the names by which a dict may give its value."""
    from pydantic import AliasChoices

    config = model.model_config
    by_name = config.get("validate_by_name") or config.get("populate_by_name")
    fields: dict[str, list[str]] = {}
    for name, field in model.model_fields.items():
        alias = field.validation_alias
        if alias is None or config.get("validate_by_alias") is False:
            fields[name] = [name]
            continue
        choices = alias.choices if isinstance(alias, AliasChoices) else [alias]
        aliases = [one if isinstance(one, str) else str(one.path[0]) for one in choices]
        fields[name] = [*aliases, name] if by_name else aliases
    return fields


def _braced(names: Iterable[str]) -> str:
    return ", ".join(f"{{{name}}}" for name in names)
