"""Tools for providers: Tool with its JSON schema, the `function_tool` decorator, calls, outputs, choice.

`vivavoce.agents.tools` runs them.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable
from copy import deepcopy
from dataclasses import dataclass, field
from functools import cached_property, partialmethod
from types import FunctionType
from typing import TYPE_CHECKING, Annotated, Any, Generic, Literal, ParamSpec, TypeVar, get_type_hints, overload

from vivavoce.pipelines.core.characters import make_whole, whole_json
from vivavoce.pipelines.core.checks import check_choice, check_flag, check_number, check_text, shown
from vivavoce.pipelines.core.errors import ConfigurationError, ToolError

if TYPE_CHECKING:
    from pydantic import BaseModel

P = ParamSpec("P")
R = TypeVar("R")
R_co = TypeVar("R_co", covariant=True)


class ToolContext:
    """Base of the parameters that the session fills in: a parameter annotated with it (or a subclass such as
    `RunContext`) is not part of the schema."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ToolChoice:
    """Which tools a model may call: any (`auto`), at least one (`required`), none, or the one named by `name`."""

    mode: Literal["auto", "required", "none", "named"] = "auto"
    name: str = ""

    def __post_init__(self) -> None:
        check_choice("mode", self.mode, ("auto", "required", "none", "named"))
        check_text("name", self.name)
        if (self.mode == "named") != bool(self.name):
            raise ConfigurationError(f"name goes with mode='named' and only with it, got {self.mode!r}, {self.name!r}")


@dataclass(frozen=True, slots=True, kw_only=True)
class ToolCall:
    """A call that the model makes.

    Args:
        arguments: JSON text, not checked yet.
        extra: Data that the provider needs back with the call; see `vivavoce.pipelines.llm.call_extra`.
    """

    call_id: str
    name: str
    arguments: str = field(repr=False)
    extra: str = field(default="", repr=False)

    def __post_init__(self) -> None:
        for name, text, make in (("arguments", self.arguments, "json.dumps"), ("extra", self.extra, "pack_extra")):
            if not isinstance(text, str):
                raise ConfigurationError(f"{name} must be JSON text, got {type(text).__name__}; use {make}(…)")
        object.__setattr__(self, "arguments", whole_json(self.arguments))
        make_whole(self, "call_id", "name", "extra")


@dataclass(frozen=True, slots=True, kw_only=True)
class ToolOutput:
    """The output of a call, as text for the model."""

    call_id: str
    name: str
    output: str = field(repr=False)
    is_error: bool = False

    def __post_init__(self) -> None:
        make_whole(self, "call_id", "name", "output")


@dataclass(slots=True)
class _Built:
    """Data made from a function's signature, once: for a method, all objects that have it share it."""

    parameters: list[tuple[str, Any, Any]] | None = None
    model: type[BaseModel] | None = None
    schema: dict[str, Any] | None = None


class Tool(Generic[P, R_co]):
    """A function that a model may call.

    It stays callable like the function, and binds like a method if it is one.

    Args:
        function: Sync (then run in a thread) or async.
        name: The name for the model; the function's name by default.
        description: The description for the model; the docstring by default.
        cancel_on_interrupt: Whether an interruption cancels it; by default it runs to the end.
        timeout: Seconds; None takes the session's `tool_timeout`.
        idempotent: Whether a second run does no harm: a call that a crash broke off runs again (`CrashSafety`).
    """

    def __init__(
        self,
        function: Callable[P, R_co],
        *,
        name: str | None = None,
        description: str | None = None,
        cancel_on_interrupt: bool = False,
        timeout: float | None = None,
        idempotent: bool = False,
    ) -> None:
        if isinstance(function, staticmethod | classmethod):
            raise _hidden(function.__qualname__, function)
        if not callable(function) or isinstance(function, type):
            raise ConfigurationError(f"need a tool as a function or method, got {shown(function)}")
        for what, text in (("name", name), ("description", description)):
            if text is not None:
                check_text(f"a tool's {what}", text)
        check_flag("cancel_on_interrupt", cancel_on_interrupt)
        check_number("timeout", timeout, above=0, unit="s", or_none=True)
        check_flag("idempotent", idempotent)
        self.function = function
        self.name = str(name or getattr(function, "__name__", ""))
        if not self.name:
            raise ConfigurationError(f"need a name for a tool of {shown(function)}; give name=…")
        self.description = description if description is not None else (inspect.getdoc(function) or "")
        self.cancel_on_interrupt = cancel_on_interrupt
        self.timeout = timeout
        self.idempotent = idempotent
        self._bound_to: object | None = None
        self._built = _Built()
        self._built_of_method: _Built | None = None
        self.__doc__ = self.description

    def __repr__(self) -> str:
        return f"Tool({self.name!r})"

    def __call__(self, *args: P.args, **kwargs: P.kwargs) -> R_co:
        if self._bound_to is not None:
            return self.function(self._bound_to, *args, **kwargs)  # type: ignore[arg-type]  # self is the first of P
        return self.function(*args, **kwargs)

    def __get__(self, instance: object | None, owner: type | None = None) -> Tool[P, R_co]:
        """Return the tool bound to `instance`, as a function would be bound."""
        if instance is None:
            return self
        bound = Tool(
            self.function,
            name=self.name,
            description=self.description,
            cancel_on_interrupt=self.cancel_on_interrupt,
            timeout=self.timeout,
            idempotent=self.idempotent,
        )
        bound._bound_to = instance
        if self._built_of_method is None:
            self._built_of_method = _Built()
        bound._built = self._built_of_method
        return bound

    @property
    def is_async(self) -> bool:
        """Whether the function is a coroutine function."""
        return inspect.iscoroutinefunction(self.function)

    @property
    def context_parameters(self) -> tuple[str, ...]:
        """Names of the parameters that the session fills in."""
        return tuple(name for name, kind, _ in self._parameters() if _is_context(kind))

    def check(self) -> None:
        """Check the parameters now, so that a mistake shows when the agent is made and not in a call.

        Raises:
            ConfigurationError: One has no type hint, or one that cannot be looked up; a method has no `self`.
        """
        if self._bound_to is not None:
            self.check_method(type(self._bound_to))
        self._parameters()

    def check_method(self, owner: type) -> None:
        """Check that a tool in the body of class `owner` is a method, so that a mistake shows with the class.

        Raises:
            ConfigurationError: It is a function without `self`.
        """
        if not inspect.isfunction(self.function):
            return
        first = next(iter(inspect.signature(self.function).parameters.values()), None)
        if first is None or not _is_self(first, self.function):
            got = "none" if first is None else repr(first.name)
            raise ConfigurationError(
                f"tool {owner.__name__}.{self.function.__name__} is a method and needs self as its first parameter, "
                f"got {got}; add self, or write a function outside of the class and give it to Agent(tools=[…])"
            )

    @property
    def is_prepared(self) -> bool:
        """Whether `prepare()` has nothing left to do."""
        return self._built.schema is not None

    def prepare(self) -> None:
        """Load pydantic and build the models for requests and calls: 0.1 s for the first tool in a process, else 2 ms.

        A session calls it in a thread before its agent begins, so that no turn waits for it.

        Raises:
            ConfigurationError: A parameter's type hint is one that pydantic has no schema for.
        """
        self._arguments_schema()

    def parameters_schema(self) -> dict[str, Any]:
        """Return the JSON schema of the arguments, from type hints, `Annotated` fields and defaults.

        Raises:
            ConfigurationError: A parameter's type hint is one that pydantic has no schema for.
        """
        return deepcopy(self._arguments_schema())

    def parse_arguments(self, text: str) -> dict[str, Any]:
        """Check the arguments of a call and return them by name; an empty text means no arguments.

        Raises:
            ToolError: `text` is not JSON, or does not fit the schema; the text names the problem, for the model.
            ConfigurationError: A parameter's type hint is one that pydantic has no schema for.
        """
        from pydantic import ValidationError

        try:
            model = self._arguments_model().model_validate_json(text or "{}")
        except ValidationError as error:
            problems = "; ".join(f"{'.'.join(map(str, p['loc'])) or 'arguments'}: {p['msg']}" for p in error.errors())
            raise ToolError(f"The arguments are not valid: {problems}.") from None  # its cause quotes the arguments
        return {str(field.alias): getattr(model, name) for name, field in type(model).model_fields.items()}

    def _arguments_schema(self) -> dict[str, Any]:
        if self._built.schema is None:
            model = self._arguments_model()
            from pydantic.errors import PydanticUserError

            try:
                schema = model.model_json_schema()
            except PydanticUserError as error:
                raise self._no_schema(error) from error
            schema.pop("title", None)
            self._built.schema = schema
        return self._built.schema

    def _arguments_model(self) -> type[BaseModel]:
        if self._built.model is None:
            from pydantic import ConfigDict, Field, create_model
            from pydantic.errors import PydanticUserError

            # Named by alias: "copy" or "schema" as a field's own name would clash with the model's.
            fields: dict[str, Any] = {
                f"parameter_{number}": (
                    Annotated[kind, Field(alias=name)],
                    ... if default is inspect.Parameter.empty else default,
                )
                for number, (name, kind, default) in enumerate(self._parameters())
                if not _is_context(kind)
            }
            try:
                self._built.model = create_model(self.name, __config__=ConfigDict(extra="forbid"), **fields)
            except PydanticUserError as error:
                raise self._no_schema(error) from error
        return self._built.model

    def _no_schema(self, error: Exception) -> ConfigurationError:
        return ConfigurationError(f"tool {self.name!r}: no JSON schema for its parameters: {error}")

    def _parameters(self) -> list[tuple[str, Any, Any]]:
        if self._built.parameters is None:
            self._built.parameters = self._find_parameters()
        return self._built.parameters

    def _find_parameters(self) -> list[tuple[str, Any, Any]]:
        try:
            hints = get_type_hints(self.function, include_extras=True)
        except NameError as error:
            raise ConfigurationError(
                f"tool {self.name!r}: its type hints name {error.name!r}, which is not there at run time; "
                "import it outside `if TYPE_CHECKING`"
            ) from error
        except TypeError as error:  # a callable without hints of its own
            raise ConfigurationError(
                f"tool {self.name!r}: need a function with type hints, got {shown(self.function)}; write one around it"
            ) from error
        signature = list(inspect.signature(self.function).parameters.values())
        is_method = signature and signature[0].name == "self" and _is_of_class(self.function)
        if self._bound_to is not None or is_method:
            signature = signature[1:]
        for parameter in signature:
            if parameter.kind in (parameter.VAR_POSITIONAL, parameter.VAR_KEYWORD):
                raise ConfigurationError(f"tool {self.name!r}: needs named parameters, got {str(parameter)!r}")
            if parameter.name not in hints:
                raise ConfigurationError(f"tool {self.name!r}: parameter {parameter.name!r} needs a type hint")
        return [(p.name, hints[p.name], p.default) for p in signature]


def check_class_attribute(owner: type, name: str, value: object) -> None:
    """Check the attribute of a class if it is a tool: a method without other decorators above `@function_tool`.

    Raises:
        ConfigurationError: It is a tool that the class hides, or one without `self`.
    """
    if isinstance(value, Tool):
        value.check_method(owner)
        return
    inner = value
    while (inner := _decorated(inner)) is not None:
        if isinstance(inner, Tool):
            raise _hidden(f"{owner.__name__}.{name}", value)


def _decorated(value: object) -> object:
    """Return the function below a decorator; None: there is none."""
    match value:
        case staticmethod() | classmethod():
            return value.__func__
        case property():
            return value.fget
        case cached_property() | partialmethod():
            return value.func
        case FunctionType():
            return getattr(value, "__wrapped__", None)
        case _:
            return None


def _hidden(name: str, decorator: object) -> ConfigurationError:
    if isinstance(decorator, FunctionType):
        return ConfigurationError(f"tool {name} is hidden by the decorator above it; write @function_tool at the top")
    return ConfigurationError(
        f"tool {name} needs to be a method with self, got a {type(decorator).__name__}; leave that out and add self, "
        "or write a function outside of the class and give it to Agent(tools=[…])"
    )


def _is_self(first: inspect.Parameter, function: Callable[..., Any]) -> bool:
    """Whether the first parameter of a function in a class is its object.

    It may have another name in a function that was written there. The parameters for the model have type hints.
    """
    if first.kind in (first.KEYWORD_ONLY, first.VAR_KEYWORD):
        return False
    is_untyped = first.annotation is first.empty
    return first.name == "self" or (is_untyped and (first.kind is first.VAR_POSITIONAL or _is_of_class(function)))


def _is_of_class(function: Callable[..., Any]) -> bool:
    """Whether a function was written in the body of a class: `Desk.book`, and neither `book` nor `….<locals>.book`."""
    place, _, _ = getattr(function, "__qualname__", "").rpartition(".")
    return bool(place) and not place.endswith("<locals>")


def _is_context(kind: Any) -> bool:
    origin = getattr(kind, "__origin__", kind)
    return isinstance(origin, type) and issubclass(origin, ToolContext)


@overload
def function_tool(function: Callable[P, R], /) -> Tool[P, R]: ...
@overload
def function_tool(
    *,
    name: str | None = None,
    description: str | None = None,
    cancel_on_interrupt: bool = False,
    timeout: float | None = None,
    idempotent: bool = False,
) -> Callable[[Callable[P, R]], Tool[P, R]]: ...
def function_tool(
    function: Callable[P, R] | None = None,
    /,
    *,
    name: str | None = None,
    description: str | None = None,
    cancel_on_interrupt: bool = False,
    timeout: float | None = None,
    idempotent: bool = False,
) -> Tool[P, R] | Callable[[Callable[P, R]], Tool[P, R]]:
    """Make a function or method, sync or async, a tool that the model may call.

    The schema comes from type hints, `Annotated` fields and defaults, the description from the docstring. The
    arguments: `Tool`.
    """

    def wrap(inner: Callable[P, R]) -> Tool[P, R]:
        return Tool(
            inner,
            name=name,
            description=description,
            cancel_on_interrupt=cancel_on_interrupt,
            timeout=timeout,
            idempotent=idempotent,
        )

    return wrap if function is None else wrap(function)
