"""The limits that keep the house livable: sizes, docstrings, broad excepts, tasks, names of registries."""

from __future__ import annotations

import functools
from collections.abc import Iterator
from pathlib import Path

import pytest
from house_rules import rules
from house_rules.tree import PRODUCT, ROOT, broken, files, python

pytestmark = pytest.mark.timeout(90)  # the first rule asked for parses everything, for all of them

EVERYWHERE = (*PRODUCT, "tests", "examples")
FACADE = Path("agents/session/session.py")
"""Names all that an application may do with a session."""


def _assert_kept(places: list[str]) -> None:
    assert not places, "\n" + "\n".join(places)


def test_no_file_is_longer_than_500_lines() -> None:
    _assert_kept(broken(rules.long_file, (path for path in python(*EVERYWHERE) if path != FACADE)))


def test_the_face_of_a_session_only_passes_on_and_so_may_be_longer() -> None:
    _assert_kept(broken(functools.partial(rules.long_file, limit=rules.MAX_FACADE_LINES), [FACADE]))
    _assert_kept(broken(rules.long_delegations, [FACADE]))


def test_no_example_is_longer_than_80_lines() -> None:
    rule = functools.partial(rules.long_file, limit=rules.MAX_EXAMPLE_LINES)
    whole_provider = Path("examples/realtime_websocket.py")  # a port of eleven methods, a protocol and its failures
    _assert_kept(broken(rule, (path for path in python("examples") if path != whole_provider)))
    _assert_kept(broken(functools.partial(rules.long_file, limit=135), [whole_provider]))


def test_no_function_is_longer_than_80_lines() -> None:
    _assert_kept(broken(rules.long_functions, python(*EVERYWHERE)))


def test_no_module_imports_more_than_25_modules_of_ours() -> None:
    # A package's __init__ names its public face; parts.py builds a session, and session.py is its face.
    exempt = (FACADE, Path("agents/session/parts.py"))
    modules = [path for path in python(*PRODUCT) if path.name != "__init__.py" and path not in exempt]
    _assert_kept(broken(rules.wide_imports, modules))


def test_no_constructor_takes_more_than_8_parameters() -> None:
    _assert_kept(broken(rules.long_constructors, python(*EVERYWHERE)))


def test_each_field_of_the_live_context_has_one_writer() -> None:
    writers: dict[str, list[str]] = {}
    for place in broken(rules.written_live_fields, python("agents")):
        path, field = place.split(":")
        writers.setdefault(field, []).append(path)
    assert writers, "context.live has another name now"
    _assert_kept([f"live.{field} is set by {', '.join(paths)}" for field, paths in writers.items() if len(paths) > 1])


def test_every_module_names_its_responsibility() -> None:
    _assert_kept(broken(rules.missing_docstring, python(*PRODUCT, "examples")))


def test_nothing_is_caught_broadly_without_a_reason() -> None:
    _assert_kept(broken(rules.unreasoned_excepts, python(*EVERYWHERE)))


def test_nothing_is_raised_in_a_handler_of_groups() -> None:
    _assert_kept(broken(rules.raised_beside_groups, python(*EVERYWHERE)))


def test_every_exception_from_a_check_has_its_reason_beside_it() -> None:
    # The rules themselves and their bad examples quote the marks.
    paths = [path for path in python(*EVERYWHERE) if path.parent != Path("tests/house_rules")]
    _assert_kept(broken(rules.unreasoned_marks, paths))


def test_a_session_makes_the_only_task_in_agents_and_one_owner_all_others() -> None:
    """A plugin's connection, or a fallback's stream, has no task group: `OwnedTasks` starts its tasks and ends them."""
    embedded = Path("agents/dev_room")
    places = broken(rules.spawned_tasks, (p for p in python(*PRODUCT) if not p.is_relative_to(embedded)))
    assert len(places) <= 2, "one owner for every task: use the task group\n" + "\n".join(places)
    owners = ("agents/session/", "pipelines/core/owned_tasks.py")
    assert all(sum(place.startswith(owner) for place in places) <= 1 for owner in owners), places
    assert all(place.startswith(owners) for place in places), places


def test_native_libraries_are_loaded_in_one_place_which_bounds_their_threads() -> None:
    _assert_kept(broken(rules.native_imports, python(*PRODUCT)))


def test_no_file_names_a_package_registry() -> None:
    _assert_kept([f"{path}:{what}" for path, text in _texts() for what in rules.registry_hosts(text)])


def test_no_file_refers_to_a_document_outside_of_the_repository() -> None:
    names = (path.name.removesuffix(".tmpl") for path in files())  # a template is the document of a new project
    known = frozenset(name for name in names if name.endswith(".md"))
    examples = Path("tests/house_rules/test_rules_can_fail.py")
    texts = ((path, text) for path, text in _texts() if path != examples)
    _assert_kept([f"{path}:{what}" for path, text in texts for what in rules.unknown_documents(text, known)])


def _texts() -> Iterator[tuple[Path, str]]:
    """Yield each text file of the repository with its text."""
    for path in files():
        raw = (ROOT / path).read_bytes()
        if b"\0" not in raw[:8192]:
            yield path, raw.decode(errors="replace")
