"""The state of a GraphMachine as JSON, for snapshots."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from vivavoce.agents.graphs.machine.rules import Event, GraphRules, OnTimer
from vivavoce.pipelines.core.checks import is_number, shown
from vivavoce.pipelines.core.errors import ConfigurationError

VERSION = 1
_PARTS = ("id", "kind", "name", "subject")
"""The parts of an event that are saved."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Saved:
    """The state of a machine.

    Args:
        state: The present state; "" before the beginning.
        return_to: The state to return to after the chain of a global state; "" outside of one.
        timers: Index of a rule of the state, and the seconds that are left.
        waiting: Events that wait for a later state.
        arrivals: Events that were not judged yet, without speech.
    """

    state: str
    return_to: str
    timers: tuple[tuple[int, float], ...]
    waiting: tuple[Event, ...]
    arrivals: tuple[Event, ...]

    @property
    def events(self) -> tuple[Event, ...]:
        """Its events; their data are lost."""
        return tuple(event for event in (*self.waiting, *self.arrivals) if event.kind != "speech")

    def to_json(self) -> dict[str, Any]:
        """Return the state for `json.dumps`."""
        return {
            "version": VERSION,
            "state": self.state,
            "return_to": self.return_to,
            "timers": [list(timer) for timer in self.timers],
            "waiting": [{name: getattr(event, name) for name in _PARTS} for event in self.waiting],
            "arrivals": [{name: getattr(event, name) for name in _PARTS} for event in self.arrivals],
        }


def restored(data: object, rules: GraphRules) -> Saved:
    """Return the state of `Saved.to_json()`, checked against the rules of this graph.

    Raises:
        ConfigurationError: It is of another version, shape or graph.
    """
    if not isinstance(data, Mapping):
        raise ConfigurationError(f"the saved state of a graph must be an object, got {shown(data)}")
    if data.get("version") != VERSION:
        raise ConfigurationError(
            f"the saved state of a graph must be of version {VERSION}, got {data.get('version')!r}; "
            "resume it with the release of vivavoce that saved it"
        )
    state, return_to = (_state(data, name, rules) for name in ("state", "return_to"))
    timers = tuple(_timer(timer, state, rules) for timer in _items(data, "timers"))
    waiting, arrivals = (tuple(_event(event, name) for event in _items(data, name)) for name in ("waiting", "arrivals"))
    return Saved(state=state, return_to=return_to, timers=timers, waiting=waiting, arrivals=arrivals)


def _state(data: Mapping[str, Any], name: str, rules: GraphRules) -> str:
    state = data.get(name)
    if not isinstance(state, str) or (state and state not in rules.states):
        known = ", ".join(sorted(rules.states))
        raise ConfigurationError(f"the saved {name} of a graph must be one of its states ({known}), got {shown(state)}")
    return state


def _items(data: Mapping[str, Any], name: str) -> list[Any]:
    items = data.get(name)
    if not isinstance(items, list):
        raise ConfigurationError(f"the saved {name} of a graph must be a list, got {shown(items)}")
    return items


def _timer(timer: object, state: str, rules: GraphRules) -> tuple[int, float]:
    of_state = rules.states[state].rules if state else ()
    match timer:
        case [int(rule), seconds] if (
            0 <= rule < len(of_state) and isinstance(of_state[rule].trigger, OnTimer) and is_number(seconds)
        ):
            return rule, max(0.0, float(seconds))
        case _:
            raise ConfigurationError(f"a saved timer must be [transition of {state!r}, seconds], got {shown(timer)}")


def _event(event: object, name: str) -> Event:
    if not isinstance(event, Mapping) or set(event) != {*_PARTS}:
        raise ConfigurationError(f"an event in the saved {name} needs id, kind, name and subject, got {shown(event)}")
    if event["kind"] not in ("speech", "file", "form", "tool", "event") or not all(
        isinstance(part, str) for part in event.values()
    ):
        raise ConfigurationError(f"an event in the saved {name} has a wrong part: {shown(event)}")
    return Event(**event)
