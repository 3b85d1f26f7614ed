"""Checks of options and arguments: each passes or raises a ConfigurationError with the need and the given value.

NaN does not count as a number: it compares as false with everything, so that a wait of NaN seconds would never end.
"""

from __future__ import annotations

import inspect
import math
from collections.abc import Callable, Iterable, Sequence
from difflib import get_close_matches
from numbers import Integral, Real
from types import FunctionType
from typing import Any, TypeGuard, TypeVar

from vivavoce.pipelines.core.characters import whole
from vivavoce.pipelines.core.errors import ConfigurationError

T = TypeVar("T")

MAX_PORT = 65_535
SHOWN_CHARACTERS = 200
"""Length of a wrong value in an error message."""


def shown(value: object) -> str:
    """Return `value` for an error message: its repr, cut if it is long; it never raises."""
    try:
        text = repr(value)
    except Exception:  # noqa: BLE001 - the application's own __repr__; the message is about something else
        return f"a {type(value).__name__} whose repr() raises"
    return text if len(text) <= SHOWN_CHARACTERS else f"{text[:SHOWN_CHARACTERS]}… ({type(value).__name__})"


def is_number(value: object) -> TypeGuard[float]:
    """Return whether `value` is a number that fits a float, other than a bool or NaN."""
    try:
        return isinstance(value, Real) and not isinstance(value, bool) and not math.isnan(value)
    except OverflowError:
        return False


def check_number(
    name: str,
    value: object,
    *,
    above: float | None = None,
    at_least: float = -math.inf,
    unit: str = "",
    or_none: bool = False,
    remedy: str = "",
) -> None:
    """Check a number, such as one of seconds.

    Args:
        above: It must be more than that; otherwise `at_least` counts.
        unit: For the message, such as "s".
        or_none: Whether None is allowed.
        remedy: The remedy for a wrong one, for the message.
    Raises:
        ConfigurationError: It is no number, or too small.
    """
    if or_none and value is None:
        return
    bound = f"{name} >= {at_least:g}" if above is None else f"{name} > {above:g}"
    if is_number(value) and (value >= at_least if above is None else value > above):
        return
    kind = "" if isinstance(value, Real) and not isinstance(value, bool) else ", a number"
    raise ConfigurationError(_message(f"{bound}{f' ({unit})' if unit else ''}{kind}", value, or_none, remedy))


def check_whole(name: str, value: object, *, at_least: int, or_none: bool = False, remedy: str = "") -> None:
    """Check a whole number.

    Raises:
        ConfigurationError: It is none, or too small.
    """
    if or_none and value is None:
        return
    if isinstance(value, Integral) and not isinstance(value, bool) and int(value) >= at_least:
        return
    raise ConfigurationError(_message(f"{name} >= {at_least}, a whole number", value, or_none, remedy))


def check_port(name: str, value: object, *, or_none: bool = False) -> None:
    """Check the number of a port to listen on: the system's own error for a wrong one is an OverflowError.

    Raises:
        ConfigurationError: It is none.
    """
    if or_none and value is None:
        return
    if isinstance(value, Integral) and not isinstance(value, bool) and 0 <= int(value) <= MAX_PORT:
        return
    raise ConfigurationError(f"{name} must be 0 (any free one) to {MAX_PORT}, got {shown(value)}")


def check_flag(name: str, value: object) -> None:
    """Check a switch.

    Raises:
        ConfigurationError: It is no bool: the string "no" would count as on.
    """
    if not isinstance(value, bool):
        raise ConfigurationError(f"need {name} True or False, got {shown(value)}")


def check_text(name: str, value: object, *, remedy: str = "") -> str:
    """Check a text and return it as a plain str, without a subclass's methods, of whole characters.

    Raises:
        ConfigurationError: It is no str.
    """
    if not isinstance(value, str):
        raise ConfigurationError(f"need {name} as a str, got {shown(value)}{'; ' + remedy if remedy else ''}")
    return whole(str.__str__(value))


def check_name(what: str, name: str | None) -> None:
    """Refuse a name that is no text, or empty; None is none.

    Raises:
        ConfigurationError: It is one of these.
    """
    if name is not None and not check_text(what, name):
        raise ConfigurationError(f"need {what} as a name or None, got ''")


def check_function(name: str, value: object, *, or_none: bool = False, remedy: str = "") -> None:
    """Check something that can be called.

    Raises:
        ConfigurationError: It cannot.
    """
    if not (callable(value) or (or_none and value is None)):
        raise ConfigurationError(_message(f"{name} as a function", value, or_none, remedy))


def takes(function: object, arguments: int, *, follow_wrapped: bool = True) -> bool:
    """Return whether `function` can be called with that number of arguments; one that shows no signature can.

    Args:
        follow_wrapped: Whether a decorator counts as taking the arguments of the function that it wraps.
    """
    if not callable(function):
        return False
    try:
        inspect.signature(function, follow_wrapped=follow_wrapped).bind(*range(arguments))
    except TypeError:
        return False
    except ValueError:  # a builtin that shows no signature
        return True
    return True


def check_overrides(cls: type, base: type, names: Iterable[str]) -> None:
    """Check that the methods of `cls` can be called as those of `base` are, whose names they have.

    Decorators count as they are: one may give the function that it wraps further arguments.

    Raises:
        ConfigurationError: One takes another number of arguments.
    """
    for name in names:
        method, own = inspect.getattr_static(cls, name), inspect.getattr_static(base, name)
        if method is own or not isinstance(method, FunctionType):
            continue
        parameters = inspect.signature(own).parameters
        if takes(method, len(parameters), follow_wrapped=False):
            continue
        given = ", ".join(parameters)
        place = f"{method.__code__.co_filename}:{method.__code__.co_firstlineno}"
        got = inspect.signature(method, follow_wrapped=False)
        raise ConfigurationError(
            f"{cls.__name__}.{name} is called with ({given}), got {name}{got} (at {place}); write {name}({given})"
        )


def check_items(
    name: str, value: object, kind: type, *, remedy: str = "", show: Callable[[object], str] = shown
) -> tuple[Any, ...]:
    """Check a list, or another sequence, of objects of a class, and return them.

    Args:
        remedy: What to give instead of a wrong item. In place of a list, the remedy is a list.
        show: Returns a wrong value for the message; a value that may hold a secret is named by its kind only.
    Raises:
        ConfigurationError: It is no sequence, or holds something else.
    """
    needed = f"need {name} as a list" + ("" if kind is object else f" of {kind.__name__}")
    if isinstance(value, str | bytes) or not isinstance(value, Sequence):
        raise ConfigurationError(f"{needed}, got {show(value)}; give a list: [...]")
    items, remedy = tuple(value), "; " + remedy if remedy else ""
    for item in items:
        if not isinstance(item, kind):
            raise ConfigurationError(f"{needed}, got {show(item)} among them{remedy}")
    return items


def check_choice(name: str, value: object, choices: tuple[object, ...]) -> None:
    """Check one of a few values.

    Raises:
        ConfigurationError: It is another one.
    """
    if not any(type(value) is type(choice) and value == choice for choice in choices):
        *others, last = [repr(choice) for choice in choices]
        raise ConfigurationError(f"need {name} {', '.join(others)} or {last}, got {shown(value)}")


def check_instance(name: str, value: object, kind: type, *, or_none: bool = False) -> None:
    """Check an object of a class.

    Raises:
        ConfigurationError: It is something else, such as the class itself.
    """
    if isinstance(value, kind) or (or_none and value is None):
        return
    raise ConfigurationError(f"{name} must be {kind.__name__}(…){' or None' if or_none else ''}, got {shown(value)}")


async def awaited(what: str, result: object) -> Any:
    """Return the result of `result`, which a call of the application's function `what` has returned.

    Raises:
        ConfigurationError: It cannot be awaited: the function must be async and is not.
    """
    if not inspect.isawaitable(result):
        raise ConfigurationError(f"{what} must be async, got a function that returned {shown(result)}; write async def")
    return await result


async def awaited_call(what: str, function: Callable[[], object]) -> Any:
    """Call the application's function `what`, and return the awaited result; raises as `awaited`."""
    return await awaited(what, function())


def control_of(owner: object, attribute: str, kind: type[T], arguments: str) -> T:
    """Return the control that the constructor of an object's base class has made.

    Args:
        arguments: Those of the base class's constructor, for the error.

    Raises:
        ConfigurationError: The class does not call that constructor.
    """
    control = getattr(owner, attribute, None)
    if not isinstance(control, kind):
        name = type(owner).__name__
        raise ConfigurationError(f"{name}.__init__ does not call super().__init__({arguments}); add that line")
    return control


def nearest(name: str, names: Iterable[str]) -> str:
    """Return the one of `names` that a misspelt `name` is likely to mean; empty if none is near."""
    return next(iter(get_close_matches(name, names, n=1)), "")


def _message(needed: str, value: object, or_none: bool, remedy: str) -> str:
    return f"need {needed}{' or None' if or_none else ''}, got {shown(value)}{'; ' + remedy if remedy else ''}"
