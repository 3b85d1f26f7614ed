"""The cost of `handle` of a GraphMachine with 200 states, beside that of the TurnMachine, in one run: the ratio is ≤ 2.

Run by hand: `PYTHONPATH=.paths:tests python tests/bench/graph_cost.py`. Both machines get the inputs of a call of 200
turns; the inputs are recorded first, and replayed into new machines. Three graphs: `chain`, where each state has four
transitions; `menu`, where each state has one to each of the others; `global`, where each state can be reached from
everywhere. In the last two a state has 200 transitions.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable, Sequence
from statistics import median
from typing import Any

from kit.graph_driver import GraphDriver
from kit.turn import Conversation
from vivavoce.agents.graphs.machine.machine import GraphMachine
from vivavoce.agents.graphs.machine.rules import GraphRules, OnEvent, OnIntent, OnTimer, Rule, StateRules
from vivavoce.agents.turn import inputs as i

STATES = 200
TURNS = 200

Machine = Any
Inputs = Sequence[tuple[Any, float]]


class RecordedConversation(Conversation):
    """Notes the inputs of its machine."""

    def __init__(self) -> None:
        self.inputs: list[tuple[i.TurnInput, float]] = []
        super().__init__()

    def _feed(self, event: i.TurnInput) -> None:
        self.inputs.append((event, self.now))
        super()._feed(event)


def turn_machine() -> tuple[Callable[[], Machine], Inputs]:
    """Return what makes a turn machine, and the inputs of a call: speech, interims, a final, an answer that plays."""
    call, now = RecordedConversation(), 1.0
    for _ in range(TURNS):
        call.starts(now)
        for part in range(4):
            call.at(now + 0.3 + 0.3 * part, i.UserInterim(text="a table please"[: 4 * part + 2]))
        call.stops(now + 1.6).at(now + 1.9, i.UserFinal(text="a table please"))
        call.until(now + 3.0)
        call.plays(now + 3.2)
        call.played(now + 5.0)
        now += 6.0
    assert len(call.forgotten) == TURNS, "each turn was answered"
    return (lambda: Conversation(is_started=False).machine), call.inputs


def graph(shape: str) -> GraphRules:
    """Return a graph of 200 states."""
    names = [f"s{number}" for number in range(STATES)]
    others = [Rule(OnIntent(f"to {name}"), name, is_global=shape == "global") for name in names]
    states = {}
    for number, name in enumerate(names):
        near = [
            Rule(OnIntent(f"to {names[(number + step) % STATES]}"), names[(number + step) % STATES]) for step in (1, 2)
        ]
        of_chain = [*near, Rule(OnEvent("goes on"), names[0]), Rule(OnTimer(60.0), name)]
        states[name] = StateRules(rules=tuple(of_chain if shape == "chain" else others), has_body=True)
    return GraphRules(initial=names[0], states=states)


def graph_machine(shape: str) -> tuple[Callable[[], Machine], Inputs]:
    """Return what makes a graph machine, and the inputs of a call: each turn moves to a state whose body runs."""
    rules = graph(shape)
    driver = GraphDriver(rules)
    driver.begin()
    for turn in range(TURNS):
        driver.wait(6.0)
        driver.speech(f"to s{(turn + 1) % STATES}")
        assert driver.machine.state == f"s{(turn + 1) % STATES}"
    return (lambda: GraphMachine(rules)), driver.inputs


def cost(make: Callable[[], Machine], inputs: Inputs, rounds: int) -> float:
    """Return the median time of one `handle`, in microseconds of CPU time."""
    found = []
    for _ in range(rounds):
        machine = make()
        begin = time.process_time()
        for event, now in inputs:
            machine.handle(event, now=now)
        found.append((time.process_time() - begin) / len(inputs) * 1e6)
    return median(found)


def main() -> None:
    """Measure, and print the costs and their ratios to the turn machine's."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=15)
    rounds = parser.parse_args().rounds
    base = cost(*turn_machine(), rounds)
    print(f"turn machine  {base:6.2f} µs")
    for shape in ("chain", "menu", "global"):
        found = cost(*graph_machine(shape), rounds)
        print(f"graph {shape:7} {found:6.2f} µs  {found / base:.2f} x")


if __name__ == "__main__":
    main()
