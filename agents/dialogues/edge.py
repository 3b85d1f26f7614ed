"""Node and Edge: the parts of a Dialogue. Names as in uAgents."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, Any, TypeAlias, TypeGuard

from vivavoce.agents.core.names import checked_name
from vivavoce.pipelines.core.checks import check_flag, check_instance, check_text, shown
from vivavoce.pipelines.core.errors import ConfigurationError

if TYPE_CHECKING:
    from pydantic import BaseModel

Handler: TypeAlias = Callable[[Any, str, Any], Awaitable[None]]
"""`async f(ctx, sender, message)`."""

Message: TypeAlias = "type[BaseModel] | BaseModel | str"
"""A message's model, a message, or the digest of its model."""


class Node:
    """A state of a dialogue.

    Args:
        name: Unique in the dialogue.
        description: For people and for the manifest.
        initial: Whether dialogues begin here.
    """

    def __init__(self, name: str, description: str, initial: bool = False) -> None:
        self.name = checked_name(name)
        self.description = check_text("description", description)
        check_flag("initial", initial)
        self.initial = initial

    def __repr__(self) -> str:
        return f"Node({self.name!r})"


class Edge:
    """A message that leads from one node to another.

    Args:
        name: Unique in the dialogue.
        description: For people and for the manifest.
        parent: The node before, or None if the message starts the dialogue.
        child: The node after.
    """

    def __init__(self, name: str, description: str, parent: Node | None, child: Node) -> None:
        self.name = checked_name(name)
        self.description = check_text("description", description)
        check_instance("parent", parent, Node, or_none=True)
        check_instance("child", child, Node)
        self.parent = parent
        self.child = child
        self._model: type[BaseModel] | None = None
        self._digest = ""
        self._func: Handler | None = None
        self._efunc: Handler | None = None

    def __repr__(self) -> str:
        return f"Edge({self.name!r})"

    @property
    def model(self) -> type[BaseModel] | None:
        """The model of the message; None until it is set."""
        return self._model

    @model.setter
    def model(self, model: type[BaseModel]) -> None:
        self._set_model(model)

    def _set_model(self, model: type[BaseModel]) -> None:
        if not (isinstance(model, type) and is_model(model)):
            raise ConfigurationError(f"the model of an edge must be a pydantic model class, got {shown(model)}")
        if self._model is not None and self._model is not model:
            names = f"{self._model.__name__}, got {model.__name__}"
            raise ConfigurationError(f"the edge {self.name!r} has the model {names}; an edge has one model")
        self._model, self._digest = model, _schema_digest(model)

    @property
    def digest(self) -> str:
        """The digest of the model; "" without one."""
        return self._digest

    @property
    def func(self) -> Handler | None:
        """The message handler."""
        return self._func

    @func.setter
    def func(self, func: Handler) -> None:
        self._func = func

    @property
    def efunc(self) -> Handler | None:
        """The edge handler, which runs before the message handler."""
        return self._efunc

    def set_edge_handler(self, model: type[BaseModel], func: Handler) -> None:
        """Have `func` run first for each message of this edge; no other handler replaces it.

        Raises:
            ConfigurationError: The edge has another model.
        """
        self._set_model(model)
        self._efunc = func

    def set_message_handler(self, model: type[BaseModel], func: Handler) -> None:
        """Have `func` run for each message of this edge, unless `Dialogue.on()` sets another one.

        Raises:
            ConfigurationError: The edge has another model.
        """
        self._set_model(model)
        self._func = func


def set_model(edge: Edge, model: type[BaseModel]) -> None:
    """Set the model of an edge that has none, or that one.

    Raises:
        ConfigurationError: The edge has another model.
    """
    edge._set_model(model)


def digest_of(message: Message) -> str:
    """Return the digest of a message's model: `model:` and the sha256 of its JSON schema; a digest as it is.

    The digest of a model without a schema is "", which no edge has.

    Raises:
        ConfigurationError: It is no model, message or digest.
    """
    if isinstance(message, str):
        return message
    model = message if isinstance(message, type) else type(message)
    if not is_model(model):
        raise ConfigurationError(f"need a pydantic model, a message or a digest, got {shown(message)}")
    try:
        return _schema_digest(model)
    except ConfigurationError:
        return ""


def _schema_digest(model: type[BaseModel]) -> str:
    """Return the digest of a model.

    Raises:
        ConfigurationError: It has no JSON schema.
    """
    from pydantic import PydanticUserError

    try:
        return "model:" + sha256_of(model.model_json_schema())
    except PydanticUserError as error:
        raise ConfigurationError(f"the model {model.__name__} has no JSON schema: {error.message}") from error


def is_model(kind: type) -> TypeGuard[type[BaseModel]]:
    """Return whether a class is a model of pydantic, which is loaded for that."""
    from pydantic import BaseModel

    return issubclass(kind, BaseModel)


def sha256_of(data: Any) -> str:
    """Return the sha256 of JSON data, whatever the order of their keys."""
    return hashlib.sha256(json.dumps(data, sort_keys=True, separators=(",", ":")).encode()).hexdigest()
