"""The graph of imports between modules of this repository, and its cycles; imports for types count."""

from __future__ import annotations

import ast
from collections.abc import Iterable, Mapping
from pathlib import Path

NAMED = {("vivavoce.agents.session_type", "vivavoce.agents.session.session")}
"""The one import for types that may go up: the alias `Session` of `AgentSession`."""


def graph(sources: Mapping[Path, str]) -> dict[str, set[str]]:
    """Return the imported modules of each module; the paths are relative to the root of the repository."""
    names = {_name(path): path for path in sources}
    return {name: _imported(ast.parse(sources[path]), names) - {name} for name, path in names.items()}


def cycles(modules: Mapping[str, Iterable[str]]) -> list[list[str]]:
    """Return the groups of modules that import each other, directly or through others, each group sorted."""
    order: dict[str, int] = {}
    lowest: dict[str, int] = {}
    stack: list[str] = []
    found = []

    def visit(name: str) -> None:  # Tarjan's algorithm
        order[name] = lowest[name] = len(order)
        stack.append(name)
        for other in modules[name]:
            if (name, other) in NAMED:
                continue
            if other not in order:
                visit(other)
                lowest[name] = min(lowest[name], lowest[other])
            elif other in stack:
                lowest[name] = min(lowest[name], order[other])
        if lowest[name] == order[name]:
            start = stack.index(name)
            group, stack[start:] = stack[start:], []
            if len(group) > 1:
                found.append(sorted(group))

    for name in modules:
        if name not in order:
            visit(name)
    return sorted(found)


def _name(path: Path) -> str:
    parts = path.with_suffix("").parts
    return ".".join(("vivavoce", *(parts[:-1] if parts[-1] == "__init__" else parts)))


def _imported(tree: ast.Module, names: Mapping[str, Path]) -> set[str]:
    found: set[str] = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            found.update(alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module:
            for alias in node.names:
                inner = f"{node.module}.{alias.name}"
                found.add(inner if inner in names else node.module)
    return found & names.keys()
