"""The measures of the house: run as a script, this module prints them; `test_measures.py` holds their bars."""

from __future__ import annotations

import ast
import io
import sys
import tokenize
import tomllib
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

if __name__ == "__main__":  # a script has its own folder on the path, in place of `tests`
    sys.path[0] = str(Path(__file__).resolve().parents[1])

from house_rules import imports, rules
from house_rules.tree import PRODUCT, ROOT, python

PARTS = Path("agents/session/parts.py")
NO_CODE = {tokenize.COMMENT, tokenize.NL, tokenize.NEWLINE, tokenize.INDENT, tokenize.DEDENT, tokenize.ENDMARKER}


@dataclass(frozen=True)
class Measure:
    """One number of the house; `bar` is the highest that it may be, None for a number that no test holds."""

    name: str
    value: int
    bar: int | None = None


def measures() -> list[Measure]:
    """Measure the checkout."""
    sources = _sources()
    return [
        Measure("lines of code in agents, pipelines and plugins", sum(map(code_lines, sources.values()))),
        Measure("files in agents, pipelines and plugins", len(sources)),
        *rules_of_the_house(),
    ]


def rules_of_the_house() -> list[Measure]:
    """Measure what has a bar."""
    import vivavoce.agents

    sources = _sources()
    session = {path: text for path, text in _below("agents/session", sources) if path.name != "__init__.py"}
    graph = imports.graph(sources)
    in_circles = [name for circle in imports.cycles(graph) for name in circle]
    return [
        Measure("files in agents/session, without __init__", len(session), 27),
        Measure("all lines of them", sum(len(text.splitlines()) for text in session.values()), 5800),
        Measure("fields of SessionParts", fields(sources[PARTS], "SessionParts"), 20),
        Measure("modules that parts.py imports at run time", len(rules.imported_modules(sources[PARTS])), 30),
        Measure(
            "assignments to other objects in agents/turn",
            sum(foreign_assignments(text) for _, text in _below("agents/turn", sources)),
            0,
        ),
        Measure("modules in import circles, types counted, but for the exempt one", len(in_circles), 0),
        Measure("imports that the test of circles exempts", len(imports.NAMED), 1),
        Measure("imports that the contract of the layers in agents exempts", len(exempt_imports()), 1),
        Measure("public names of vivavoce.agents", len(vivavoce.agents.__all__), 45),
    ]


def _sources() -> dict[Path, str]:
    return {path: (ROOT / path).read_text() for path in python(*PRODUCT)}


def code_lines(source: str) -> int:
    """Count the lines of a source text that hold code: neither blank nor a comment or docstring alone."""
    lines: set[int] = set()
    for token in tokenize.generate_tokens(io.StringIO(source).readline):
        if token.type not in NO_CODE:
            lines.update(range(token.start[0], token.end[0] + 1))
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant) and isinstance(node.value.value, str):
            lines.difference_update(range(node.lineno, (node.end_lineno or node.lineno) + 1))
    return len(lines)


def exempt_imports() -> list[str]:
    """Return the imports that may go up in `agents`."""
    contracts = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["importlinter"]["contracts"]
    (layers,) = (contract for contract in contracts if contract["name"] == "inside agents")
    return [str(each) for each in layers.get("ignore_imports", [])]


def fields(source: str, name: str) -> int:
    """Count the fields of the dataclass of that name."""
    (found,) = (node for node in ast.parse(source).body if isinstance(node, ast.ClassDef) and node.name == name)
    return sum(isinstance(node, ast.AnnAssign) for node in found.body)


def foreign_assignments(source: str) -> int:
    """Count the assignments to attributes of other objects than `self` or `cls`."""
    return sum(
        isinstance(node, ast.Attribute)
        and isinstance(node.ctx, ast.Store | ast.Del)
        and ast.unparse(node.value) not in ("self", "cls")
        for node in ast.walk(ast.parse(source))
    )


def _below(folder: str, sources: dict[Path, str]) -> Iterator[tuple[Path, str]]:
    return ((path, text) for path, text in sources.items() if path.is_relative_to(folder))


if __name__ == "__main__":
    for measure in measures():
        print(f"{measure.value:7,}  {measure.name}" + ("" if measure.bar is None else f" (at most {measure.bar:,})"))
