"""The fingerprint of the machines' rules, by which a reader of a trace notices that other rules wrote it.

It is made of the code itself, so that no change of a rule can be forgotten. It changes with comments too: another
fingerprint says that a machine may decide otherwise, not that it does.
"""

from __future__ import annotations

from collections.abc import Iterator
from hashlib import sha256
from importlib.resources import files
from importlib.resources.abc import Traversable

PACKAGE = "vivavoce.agents.turn"
OTHERS = (("vivavoce.agents", "states.py"), ("vivavoce.pipelines.core", "words.py"))
"""Modules outside of the package by which it decides."""
GRAPH = "graphs/machine/"
"""The machine of conversation graphs, in `vivavoce.agents`."""


def rules_here() -> str:
    """Return the fingerprint of the rules here. Reads files: for a thread, or a command."""
    others = ((f"{package}/{name}", files(package) / name) for package, name in OTHERS)
    graph = _sources(files("vivavoce.agents") / GRAPH, GRAPH)
    digest = sha256()
    for path, source in sorted([*_sources(files(PACKAGE), ""), *others, *graph], key=lambda each: each[0]):
        digest.update(f"{path}\n".encode() + source.read_bytes())
    return digest.hexdigest()[:12]


def _sources(folder: Traversable, path: str) -> Iterator[tuple[str, Traversable]]:
    """Yield the modules of a package by which it decides, with their paths; the trace itself decides nothing."""
    for each in folder.iterdir():
        if each.name.endswith(".py"):
            yield f"{path}{each.name}", each
        elif each.is_dir() and each.name not in ("trace", "__pycache__"):
            yield from _sources(each, f"{path}{each.name}/")
