"""Mutation testing of the turn machine: changes one thing at a time in a copy of the tree, to see a test fail for it.

`make mutate` (or `python tests/mutation/mutate.py --minutes 60`) draws mutants of `agents/turn` in an order decided by
`--seed` and tests them until the time is up. Each is held against the example tests of `tests/agents/turn`, and where
they notice nothing against its laws. It prints how many were killed and every survivor as a diff; status 1 below
`--needed` percent.

It is cosmic-ray's mutation with a loop of our own, which takes a sample within a time. mutmut was tried and cannot work
here: it tells mutants by the path of their file, `agents.turn.machine`, while the package is called
`vivavoce.agents.turn.machine`, so that no test is found to reach any. Left out are operators whose mutants mean the
same, or which only repeat another one's: `|` between types, which nothing evaluates; `is` for `==` of short strings;
and all arithmetic for each operator but one.
"""

from __future__ import annotations

import argparse
import os
import random
import re
import shutil
import subprocess
import sys
import tempfile
import time
from collections import Counter
from pathlib import Path

from cosmic_ray.commands import init
from cosmic_ray.mutating import mutate_and_test
from cosmic_ray.work_db import use_db
from cosmic_ray.work_item import MutationSpec, TestOutcome

ROOT = Path(__file__).resolve().parents[2]
PACKAGE = "agents/turn"
NOT_DECISIONS = ("__init__.py", "inputs.py", "effects.py")
LEFT_OUT = re.compile(
    r"core/(ReplaceBinaryOperator_(BitOr_|\w+_(BitOr|BitAnd|BitXor|LShift|RShift|Pow|Mod|FloorDiv|Div)$)"
    r"|ReplaceBinaryOperator_(Add_Mul|Sub_Mul|Mul_Sub|Div_Add|Div_Sub)$"
    r"|ReplaceComparisonOperator_\w+_(Is|IsNot)$(?<!Is_IsNot)(?<!IsNot_Is))"
)
LIMIT = 30.0
"""Seconds for the tests of one mutant; more is an endless loop, which counts as killed."""


def test_command() -> str:
    """Return the tests that a mutant is held against: quick ones first."""
    pytest = f"{Path(sys.executable).parent / 'pytest'} -q -x -p no:cacheprovider"
    tests, laws = "tests/agents/turn", "tests/agents/turn/test_laws.py"
    # The same draws each time, and no memory of earlier failures: else one rare failure would kill every mutant.
    draws = "rm -rf .hypothesis && " + f"{pytest} --hypothesis-seed=0 {laws}"
    return f"sh -c '{pytest} -p no:hypothesispytest --ignore={laws} {tests} && {draws}'"


def copy_tree(place: Path) -> None:
    """Copy what git knows, as it is in the working tree, so that mutants never touch it."""
    listed = subprocess.run(["git", "ls-files", "-z"], cwd=ROOT, capture_output=True, check=True, text=True).stdout
    for name in filter(None, listed.split("\0")):
        target = place / name
        target.parent.mkdir(parents=True, exist_ok=True)
        shutil.copy2(ROOT / name, target, follow_symlinks=False)


def mutants() -> list[MutationSpec]:
    """Return every mutant of the package in the current folder."""
    modules = [path for path in sorted(Path(PACKAGE).glob("*.py")) if path.name not in NOT_DECISIONS]
    with use_db("mutants.sqlite") as database:
        init(modules, database, {})
        found = [mutation for item in database.pending_work_items for mutation in item.mutations]
    return [mutation for mutation in found if not LEFT_OUT.match(mutation.operator_name)]


def main() -> int:
    """Run as the module's docstring says."""
    parser = argparse.ArgumentParser(description="Mutation testing of agents/turn.")
    parser.add_argument("--minutes", type=float, default=60.0, help="stop after so long")
    parser.add_argument("--seed", default="1", help="which mutants come first")
    parser.add_argument("--only", default="", help="only modules whose path holds this")
    parser.add_argument("--needed", type=float, default=90.0, help="percent that must be killed")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="vivavoce-mutants-") as place:
        copy_tree(Path(place))
        os.chdir(place)
        os.environ["PYTHONPATH"] = f"{place}/.paths"
        os.environ["PYTHONDONTWRITEBYTECODE"] = "1"  # two mutants of one size within a second would share their code
        subprocess.run(test_command(), shell=True, check=True, stdout=subprocess.DEVNULL)
        status = test(options)
        os.chdir(ROOT)
    return status


def test(options: argparse.Namespace) -> int:
    """Test mutants until there are no more or the time is up, and print what came of them."""
    todo = [mutation for mutation in mutants() if options.only in str(mutation.module_path)]
    random.Random(options.seed).shuffle(todo)
    until = time.monotonic() + options.minutes * 60
    results: Counter[str] = Counter()
    for mutation in todo:
        if time.monotonic() > until:
            break
        result = mutate_and_test([mutation], test_command(), LIMIT)
        results[(result.test_outcome or result.worker_outcome).value] += 1
        if result.test_outcome is TestOutcome.SURVIVED:
            print(f"--- survivor: {mutation.operator_name}\n{result.diff}", flush=True)
    tested = results["killed"] + results["survived"] + results["incompetent"]
    killed = 100 * (tested - results["survived"]) / max(1, tested)
    print(f"{tested} of {len(todo)} mutants tested, seed {options.seed}: {dict(results)}; killed {killed:.1f} %")
    return 0 if killed >= options.needed else 1


if __name__ == "__main__":
    sys.exit(main())
