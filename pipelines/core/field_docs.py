"""FieldDocs: the text of an options class for `help()`: its docstring, and the docstring below each of its fields.

Python drops the texts below fields; they are read from the source when the text is asked for, so that the import of an
options class costs nothing and each text is written once.
"""

from __future__ import annotations

import ast
import inspect
import textwrap
from dataclasses import is_dataclass

POINTER = "Each option: docs/options.md."
"""Ends the docstring of each class of options."""


class FieldDocs:
    """The `__doc__` of one class.

    Args:
        text: Its docstring.
    """

    def __init__(self, text: str) -> None:
        self._text = text

    def __get__(self, instance: object, owner: type) -> str:
        try:
            fields = field_texts(owner)
        except (OSError, TypeError):  # an installation without sources
            return self._text
        lines = [f"    {name}: {text}" for name, text in fields.items() if text]
        return "\n".join([self._text.rstrip(), "", "Options:", *lines, ""])


def with_field_docs(found: object) -> object:
    """Have the text of an options class show its fields, and return it; anything else is returned as it is."""
    if isinstance(found, type) and is_dataclass(found):
        text = found.__dict__.get("__doc__")
        if isinstance(text, str) and POINTER in text:
            type.__setattr__(found, "__doc__", FieldDocs(text))
    return found


def field_texts(cls: type) -> dict[str, str]:
    """Return the text below each field in the source, with those that the class inherits.

    Raises:
        OSError, TypeError: There is no source.
    """
    return {name: text for name, (_, text) in fields_in_source(cls).items()}


def fields_in_source(cls: type) -> dict[str, tuple[ast.AnnAssign, str]]:
    """Return each field's statement in the source, and the docstring below it.

    Raises:
        OSError, TypeError: There is no source.
    """
    found: dict[str, tuple[ast.AnnAssign, str]] = {}
    for base in reversed(cls.__mro__):
        if not is_dataclass(base):
            continue
        (tree,) = ast.parse(textwrap.dedent(inspect.getsource(base))).body
        assert isinstance(tree, ast.ClassDef)
        for statement, following in zip(tree.body, [*tree.body[1:], None], strict=True):
            if isinstance(statement, ast.AnnAssign) and isinstance(statement.target, ast.Name):
                found[statement.target.id] = (statement, _text_of(following))
    return found


def _text_of(statement: ast.stmt | None) -> str:
    if isinstance(statement, ast.Expr) and isinstance(statement.value, ast.Constant):
        return " ".join(str(statement.value.value).split())
    return ""
