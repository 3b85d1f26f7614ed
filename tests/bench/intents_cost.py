"""The cost of `PatternIntents`: M1 (answer delay) with a conversation graph and without, in one run; the bar is 1.1 x.

Run by hand: `PYTHONPATH=.paths:tests python tests/bench/intents_cost.py <folder>`, with the folder of the benchmark's
harness. A process with the graph and one without run at the same time, so that both meet the same load. Each turn is
judged among six intents and moves the conversation; the model answers. "instant" has providers without a delay.
"""

from __future__ import annotations

import argparse
from pathlib import Path
from statistics import median

from bench.memory_cost import DELAYS, measured

FRAME = 20.0
"""Milliseconds of the frame that carries the silence; `DELAYS` contains it."""
VARIANTS = {"zero": ("instant", FRAME), "real": ("realistic", DELAYS)}


def main() -> None:
    """Measure, and print the medians and their ratios."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("harness", type=Path)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--turns", type=int, default=30)
    given = parser.parse_args()
    for variant, (name, delays) in VARIANTS.items():
        pairs = []
        for _ in range(given.rounds):
            results = measured("m1", {"variant": variant, "turns": given.turns}, given.harness, {"BENCH_GRAPH": "1"})
            pairs.append([result["raw_ms"]["median"] for result in results])
        without, judged = (median(column) for column in zip(*pairs, strict=True))
        overhead = (judged - delays) / (without - delays)
        print(f"M1 {name}: without {without:.2f} ms, with PatternIntents {judged:.2f} ms: {judged / without:.3f} x")
        print(f"  beyond the providers' delays: {without - delays:.2f} and {judged - delays:.2f} ms: {overhead:.2f} x")
        print(f"  pairs {pairs}")


if __name__ == "__main__":
    main()
