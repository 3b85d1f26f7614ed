"""Compare the turn machines of two trees: random calls of the laws' generator, fed to both, must give the same effects.

    python tests/bench/turn_calls.py draw calls.pickle --calls 3000    # once, in either tree
    python tests/bench/turn_calls.py feed calls.pickle before.txt      # in the tree before a change
    python tests/bench/turn_calls.py feed calls.pickle after.txt       # in the tree after it
    cmp before.txt after.txt

`draw` keeps the options and inputs of each call, with their times; `feed` writes each input with its effects, the next
deadline and the states. Run it with PYTHONPATH=.paths:tests; it takes about two minutes for 3,000 calls.
"""

from __future__ import annotations

import argparse
import pickle
import re
import sys
from collections import Counter
from pathlib import Path

from hypothesis import HealthCheck, Phase, seed, settings
from hypothesis.stateful import run_state_machine_as_test

from vivavoce.agents.turn.effects import Effect
from vivavoce.agents.turn.inputs import TurnInput
from vivavoce.agents.turn.machine import TurnMachine
from vivavoce.agents.turn.options import TurnOptions

Call = tuple[TurnOptions, list[tuple[TurnInput, float]]]


def draw(calls: int) -> list[Call]:
    """Return that many calls, the same in each run of one tree."""
    sys.path.insert(0, str(Path(__file__).parents[1] / "agents/turn"))
    from test_laws import TurnLaws  # type: ignore[import-not-found]  # noqa: PLC0415 - the laws are no module of the kit

    drawn: list[Call] = []

    class Drawn(TurnLaws):  # type: ignore[misc]
        def teardown(self) -> None:
            super().teardown()
            if hasattr(self, "machine"):
                drawn.append((self.first_options, [(step.event, step.now) for step in self.record]))

    rules = settings(
        max_examples=calls,
        stateful_step_count=50,
        deadline=None,
        database=None,
        phases=[Phase.generate],
        suppress_health_check=list(HealthCheck),
    )
    run_state_machine_as_test(seed(30)(Drawn), settings=rules)
    return drawn


def feed(calls: list[Call], report: Path) -> Counter[str]:
    """Feed the calls to this tree's machine and write what it does; return how often each input and effect came."""
    counts: Counter[str] = Counter()
    with report.open("w") as lines:
        for number, (options, inputs) in enumerate(calls):
            machine = TurnMachine(options)
            lines.write(f"call {number}\n")
            for event, now in inputs:
                effects = machine.handle(event, now=now)
                counts.update(type(each).__name__ for each in (event, *effects))
                states = machine.agent_state, machine.user_state, machine.open_turn_id, machine.current_speech_id
                ahead = machine.heard_before("")
                facts = f"{machine.next_deadline()!r} {states} {ahead} {machine.turns} {machine.is_change_due}"
                lines.write(re.sub(" at 0x\\w+", "", f"{now!r} {event!r} -> {_shown(effects)} {facts}\n"))
    return counts


def _shown(effects: list[Effect]) -> str:
    # A repr leaves the words out, and tracebacks name lines of code.
    return repr([(each, getattr(each, "text", "")) for each in effects])


def main() -> None:
    """Draw calls, or feed them."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("act", choices=["draw", "feed"])
    parser.add_argument("calls", type=Path)
    parser.add_argument("report", type=Path, nargs="?")
    parser.add_argument("--calls", dest="number", type=int, default=3000)
    given = parser.parse_args()
    if given.act == "draw":
        drawn = draw(given.number)
        given.calls.write_bytes(pickle.dumps(drawn))
        print(f"{len(drawn)} calls, {sum(len(inputs) for _, inputs in drawn)} inputs")
    else:
        print(feed(pickle.loads(given.calls.read_bytes()), given.report))


if __name__ == "__main__":
    main()
