"""Mutation testing of the turn machine: changes one thing at a time in a copy of the tree, to see a test fail for it.

`make mutate` (or `python tests/mutation/mutate.py --minutes 60`) draws mutants of `agents/turn` in an order decided by
`--seed` and tests them until the time is up. The example tests of `tests/agents/turn` run first, and the laws run when
the examples pass. The output is every survivor as a diff, and the killed share of each module and of all. The status is
1 below `--needed` percent.

The mutation is cosmic-ray's; the loop is our own, since it takes a sample within a time. mutmut cannot work here: it
names a mutant after the path of its file, `agents.turn.machine`, while the package is called
`vivavoce.agents.turn.machine`, so it finds no test for any mutant. Some operators are left out, since their mutants
mean the same or repeat another operator's: `|` between types, which nothing evaluates; `is` for `==` of short strings;
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
FLAGS = re.compile(r"^@dataclass\(|\brepr=")
"""Lines of dataclasses' flags, which decide nothing."""


def test_command() -> str:
    """Return the shell command that tests a mutant, the quick tests first."""
    pytest = f"{Path(sys.executable).parent / 'pytest'} -q -x -p no:cacheprovider"
    tests, laws = "tests/agents/turn", "tests/agents/turn/test_laws.py"
    # The same draws each time, and no memory of earlier failures: else one rare failure would kill every mutant.
    draws = "rm -rf .hypothesis && " + f"{pytest} --hypothesis-seed=0 {laws}"
    return f"sh -c '{pytest} -p no:hypothesispytest --ignore={laws} {tests} && {draws}'"


def copy_tree(place: Path) -> None:
    """Copy the files that git tracks from the working tree, so that mutants never touch the tree itself."""
    listed = subprocess.run(["git", "ls-files", "-z"], cwd=ROOT, capture_output=True, check=True, text=True).stdout
    for name in filter(None, listed.split("\0")):
        target = place / name
        target.parent.mkdir(parents=True, exist_ok=True)
        shutil.copy2(ROOT / name, target, follow_symlinks=False)


def mutants() -> list[MutationSpec]:
    """Return every mutant of the package in the current folder."""
    modules = [path for path in sorted(Path(PACKAGE).rglob("*.py")) if path.name not in NOT_DECISIONS]
    with use_db("mutants.sqlite") as database:
        init(modules, database, {})
        found = [mutation for item in database.pending_work_items for mutation in item.mutations]
    lines = {module: module.read_text().splitlines() for module in modules}
    return [
        mutation
        for mutation in found
        if not LEFT_OUT.match(mutation.operator_name)
        and not FLAGS.search(lines[mutation.module_path][mutation.start_pos[0] - 1])
    ]


def main() -> int:
    """Run as the module's docstring says."""
    parser = argparse.ArgumentParser(description="Mutation testing of agents/turn.")
    parser.add_argument("--minutes", type=float, default=60.0, help="stop after this time")
    parser.add_argument("--seed", default="1", help="which mutants come first")
    parser.add_argument("--only", action="append", help="only modules whose path holds this text; may be repeated")
    parser.add_argument(
        "--limit", type=float, default=30.0, help="seconds for one mutant; more is an endless loop: killed"
    )
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
    """Test mutants until none is left or the time is up; print the survivors and the figures."""
    parts = options.only or [""]
    todo = [mutation for mutation in mutants() if any(part in str(mutation.module_path) for part in parts)]
    random.Random(options.seed).shuffle(todo)
    until = time.monotonic() + options.minutes * 60
    tested: Counter[str] = Counter()
    survived: Counter[str] = Counter()
    late = 0
    for mutation in todo:
        if time.monotonic() > until:
            break
        result = mutate_and_test([mutation], test_command(), options.limit)
        module = str(mutation.module_path)
        tested[module] += 1
        late += result.output == "timeout"
        if result.test_outcome is TestOutcome.SURVIVED:
            survived[module] += 1
            print(f"--- survivor: {mutation.operator_name}\n{result.diff}", flush=True)
    for module in sorted(tested):
        print(f"{module}: {_figures(tested[module], survived[module])}")
    figures = _figures(tested.total(), survived.total())
    print(f"seed {options.seed}, of {len(todo)}: {figures}, {late} of them by the limit")
    return 0 if _killed(tested.total(), survived.total()) >= options.needed else 1


def _killed(tested: int, survived: int) -> float:
    return 100 * (tested - survived) / max(1, tested)


def _figures(tested: int, survived: int) -> str:
    return f"{tested} tested, {survived} survived, killed {_killed(tested, survived):.1f} %"


if __name__ == "__main__":
    sys.exit(main())
