"""Each house rule, shown on text that breaks it and on its nearest neighbour that does not."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from house_rules import rules

Rule = Callable[[str], list[str]]


def _function(lines: int) -> str:
    return "async def f():\n" + "    pass\n" * (lines - 1)


def _class(methods: int = 0, attributes: int = 0, properties: int = 0) -> str:
    body = "".join(f"    def m{i}(self): ...\n" for i in range(methods))
    body += "".join(f"    @property\n    def p{i}(self): ...\n" for i in range(properties))
    body += (
        "    def __init__(self):\n" + "".join(f"        self.a{i} = 0\n" for i in range(attributes)) + "        pass\n"
    )
    return "class C:\n" + body


def _constructor(parameters: int) -> str:
    return f"class C:\n    def __init__(self, a, *, {', '.join(f'p{i}=0' for i in range(parameters - 1))}): ...\n"


BREAKS: list[tuple[Rule, str]] = [
    (rules.long_file, "\n" * 501),
    (rules.long_functions, _function(81)),
    (rules.large_classes, _class(methods=16)),
    (rules.large_classes, _class(attributes=21)),
    (rules.large_classes, "class C:\n" + "".join(f"    a{i}: int\n" for i in range(21))),
    (rules.long_constructors, _constructor(9)),
    (rules.missing_docstring, "x = 1\n"),
    (rules.missing_docstring, '"""Helpers."""\n'),
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
    (rules.registry_hosts, f"see https://{rules.REGISTRY_HOSTS[0]}/simple\n"),
    (rules.unknown_documents, "as `notes.md`, section 2, says\n"),
]

KEEPS: list[tuple[Rule, str]] = [
    (rules.long_file, "\n" * 500),
    (rules.long_functions, _function(80)),
    (rules.large_classes, _class(methods=15, attributes=20, properties=30)),
    (rules.large_classes, "class C(StrEnum):\n" + "".join(f"    A{i} = '{i}'\n" for i in range(21))),
    (rules.long_constructors, _constructor(8)),
    (rules.missing_docstring, '"""Owns the clock."""\n'),
    (rules.unreasoned_excepts, "try: ...\nexcept (OSError, ValueError): ...\n"),
    (rules.unreasoned_excepts, "try: ...\nexcept BaseException:\n    undo()\n    raise\n"),
    (rules.unreasoned_excepts, "try: ...\nexcept Exception:  # noqa: BLE001 - a tool may raise anything\n    ...\n"),
    (rules.unreasoned_marks, "x = 1  # noqa: E501, F401 - a table\n"),
    (rules.unreasoned_marks, "x = 1  # type: ignore[no-untyped-call]\n"),
    (rules.unreasoned_marks, "x = 1  # pragma: no cover - runs in the child only\n"),
    (rules.spawned_tasks, "self._tasks.create_task(f())\ntg.create_task(f())\n"),
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
