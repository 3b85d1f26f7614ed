"""Each house rule, shown on text that breaks it and on its nearest neighbour that does not."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from house_rules import rules

Rule = Callable[[str], list[str]]


def _function(lines: int) -> str:
    return "async def f():\n" + "    pass\n" * (lines - 1)


def _method(lines: int) -> str:
    return 'class C:\n    def f(self):\n        """Do it.\n\n        Now.\n        """\n' + "        pass\n" * lines


def _imports(modules: int) -> str:
    return "".join(f"from vivavoce.agents.m{i} import a, b\n" for i in range(modules))


def _constructor(parameters: int) -> str:
    return f"class C:\n    def __init__(self, a, *, {', '.join(f'p{i}=0' for i in range(parameters - 1))}): ...\n"


BREAKS: list[tuple[Rule, str]] = [
    (rules.long_file, "\n" * 501),
    (rules.long_functions, _function(81)),
    (rules.long_delegations, _method(11)),
    (rules.wide_imports, _imports(26)),
    (rules.wide_imports, _imports(25) + "def f():\n    import vivavoce.pipelines.core.clock\n"),
    (rules.wide_imports, _imports(24) + "from vivavoce.agents.turn import machine, inputs\n"),
    (rules.long_constructors, _constructor(9)),
    (rules.missing_docstring, "x = 1\n"),
    (rules.missing_docstring, '"""Helpers."""\n'),
    (rules.raised_beside_groups, "try: ...\nexcept* OSError as group:\n    raise group.exceptions[0] from None\n"),
    (rules.unreasoned_excepts, "try: ...\nexcept: ...\n"),
    (rules.unreasoned_excepts, "try: ...\nexcept Exception: ...\n"),
    (rules.unreasoned_excepts, "try: ...\nexcept (OSError, BaseException): ...\n"),
    (rules.unreasoned_excepts, "try: ...\nexcept Exception:  # noqa: BLE001\n    ...\n"),
    (rules.unreasoned_excepts, "try: ...\nexcept BaseException:\n    if x:\n        raise\n"),
    (rules.unreasoned_marks, "x = 1  # noqa\n"),
    (rules.unreasoned_marks, "x = 1  # noqa: E501\n"),
    (rules.unreasoned_marks, "x = 1  # type: ignore\n"),
    (rules.unreasoned_marks, "x = 1  # pragma: no cover\n"),
    (rules.spawned_tasks, "asyncio.create_task(f())\n"),
    (rules.spawned_tasks, "asyncio.get_running_loop().create_task(f())\n"),
    (rules.spawned_tasks, "from asyncio import create_task\ncreate_task(f())\n"),
    (rules.spawned_tasks, "asyncio.ensure_future(f())\n"),
    (rules.written_live_fields, "self._context.live.agent = agent\n"),
    (rules.written_live_fields, "live.agent, self.agent = agent, agent\n"),
    (rules.native_imports, "def f():\n    import numpy as np\n"),
    (rules.native_imports, "from onnxruntime.capi import session\n"),
    (rules.registry_hosts, f"see https://{rules.REGISTRY_HOSTS[0]}/simple\n"),
    (rules.unknown_documents, "as `notes.md`, section 2, says\n"),
]

KEEPS: list[tuple[Rule, str]] = [
    (rules.long_file, "\n" * 500),
    (rules.long_functions, _function(80)),
    (rules.long_delegations, _method(10)),
    (rules.wide_imports, _imports(25) + "import asyncio\nfrom anyio import sleep\n"),
    (rules.wide_imports, _imports(25) + "if TYPE_CHECKING:\n    from vivavoce.agents.events import SessionEvent\n"),
    (rules.wide_imports, _imports(24) + "from vivavoce.agents.turn.machine import TurnMachine, Deadline\n"),
    (rules.long_constructors, _constructor(8)),
    (rules.missing_docstring, '"""The clock of a session."""\n'),
    (rules.raised_beside_groups, "try: ...\nexcept* OSError as group:\n    found = group\n"),
    (rules.unreasoned_excepts, "try: ...\nexcept (OSError, ValueError): ...\n"),
    (rules.unreasoned_excepts, "try: ...\nexcept BaseException:\n    undo()\n    raise\n"),
    (rules.unreasoned_excepts, "try: ...\nexcept Exception:  # noqa: BLE001 - a tool may raise anything\n    ...\n"),
    (rules.unreasoned_marks, "x = 1  # noqa: E501, F401 - a table\n"),
    (rules.unreasoned_marks, "x = 1  # type: ignore[no-untyped-call]\n"),
    (rules.unreasoned_marks, "x = 1  # pragma: no cover - runs in the child only\n"),
    (rules.spawned_tasks, "self._tasks.create_task(f())\ntg.create_task(f())\n"),
    (rules.written_live_fields, "self.live = live\nagent = context.live.agent\nalive.agent = agent\n"),
    (
        rules.native_imports,
        "if TYPE_CHECKING:\n    import numpy as np\nfrom vivavoce.pipelines.core.native_threads import numpy as np\n",
    ),
    (rules.registry_hosts, "livekit.io and 127.0.0.1\n"),
    (rules.unknown_documents, "Markdown (`.md`), as https://example.com/notes.md has it\n"),
]


def _id(value: object) -> str:
    return value.__name__ if callable(value) and hasattr(value, "__name__") else ""


@pytest.mark.parametrize(("rule", "source"), BREAKS, ids=_id)
def test_a_rule_reports_what_breaks_it(rule: Rule, source: str) -> None:
    assert len(rule(source)) == 1


@pytest.mark.parametrize(("rule", "source"), KEEPS, ids=_id)
def test_a_rule_is_silent_just_inside_its_limit(rule: Rule, source: str) -> None:
    assert rule(source) == []
