"""Public names of a package that load on first use, so that its import costs nothing."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from importlib import import_module


def lazy_names(package: str, places: Mapping[str, str]) -> tuple[Callable[[str], object], Callable[[], list[str]]]:
    """Return `__getattr__` and `__dir__` of a package whose public names load on first use.

    The package assigns them under `if not TYPE_CHECKING`, so that a type checker reports a name that it does not have.
    For type checkers the package also imports its names under `if TYPE_CHECKING`, and lists them in `__all__`.

    Args:
        package: The package's `__name__`.
        places: Module -> its public names, separated by blanks.
    """
    modules = {name: module for module, names in places.items() for name in names.split()}

    def load(name: str) -> object:
        if name not in modules:
            raise AttributeError(f"module {package!r} has no attribute {name!r}")
        from vivavoce.pipelines.core.field_docs import with_field_docs

        return with_field_docs(getattr(import_module(modules[name]), name))

    return load, lambda: sorted(modules)
