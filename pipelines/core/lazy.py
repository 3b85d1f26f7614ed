"""Public names of a module that load on first use, so that its import costs nothing; answers to earlier names."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from importlib import import_module

Names = tuple[Callable[[str], object], Callable[[], list[str]]]


def lazy_names(module: str, places: Mapping[str, str], *, moved: Mapping[str, str] | None = None) -> Names:
    """Return `__getattr__` and `__dir__` of a module whose public names load on first use.

    The module assigns both under `if not TYPE_CHECKING`: type checkers then report a name that is not there. They read
    `__all__`, and imports of the same names under `if TYPE_CHECKING`.

    Args:
        module: The module's `__name__`.
        places: Module -> its public names, with blanks between them.
        moved: Name of an earlier version -> text of the ImportError that answers it.
    """
    modules = by_name(places)
    answers = moved or {}

    def load(name: str) -> object:
        if name in modules:
            from vivavoce.pipelines.core.field_docs import with_field_docs

            return with_field_docs(getattr(import_module(modules[name]), name))
        if name in answers:  # the text of an AttributeError is lost in `from module import name`
            raise ImportError(answers[name], name=module)
        raise AttributeError(f"module {module!r} has no attribute {name!r}")

    return load, lambda: sorted(modules)


def by_name(places: Mapping[str, str]) -> dict[str, str]:
    """Return name -> module of module -> names, with blanks between them."""
    return {name: module for module, names in places.items() for name in names.split()}
