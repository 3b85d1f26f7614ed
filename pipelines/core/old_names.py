"""Answers to names of earlier versions: an error with the name of today. There are no aliases. Exports: `lazy_names`.

Members are assigned to `__getattr__` under `if not TYPE_CHECKING`: type checkers then report a wrong name.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from typing import Any, TypeVar

from vivavoce.pipelines.core.errors import ConfigurationError

OptionsT = TypeVar("OptionsT")


def old_arguments(**places: str) -> Callable[[type[OptionsT]], type[OptionsT]]:
    """Return a decorator of an options class, to stand above `@dataclass`.

    Args:
        places: Argument that the class had -> its successor, such as `"SessionOptions(graph=…)"`. The class raises a
            ConfigurationError with it.
    """

    def decorate(cls: type[OptionsT]) -> type[OptionsT]:
        make = cls.__init__

        @wraps(make)
        def make_or_answer(self: OptionsT, *args: Any, **given: Any) -> None:
            for name in places.keys() & given.keys():
                raise ConfigurationError(f"{cls.__name__}({name}=…) is {places[name]} now")
            make(self, *args, **given)

        type.__setattr__(cls, "__init__", make_or_answer)
        return cls

    return decorate


def old_members(**names: str) -> Callable[[object, str], Any]:
    """Return `__getattr__` of a class: old member -> its successor, which the AttributeError names."""

    def answer(self: object, name: str) -> Any:
        if name in names:
            raise AttributeError(f"{type(self).__name__}.{name} is {names[name]} now")
        return object.__getattribute__(self, name)  # the error of a missing attribute, or of a property that raised

    return answer
