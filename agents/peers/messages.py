"""Messages of peers: pydantic models and texts, as the name of the model and JSON data."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any, TypeGuard, TypeVar

from vivavoce.agents.core.application_code import application_code
from vivavoce.agents.peers.wire import short
from vivavoce.pipelines.core.characters import whole
from vivavoce.pipelines.core.checks import shown
from vivavoce.pipelines.core.errors import ConfigurationError, PeerRejected

if TYPE_CHECKING:
    from pydantic import BaseModel

M = TypeVar("M", bound="BaseModel")

TEXT = ""
"""The name that stands for texts."""


def name_of(kind: object) -> str:
    """Return the name of a model, or `TEXT` for `str`.

    Raises:
        ConfigurationError: It is neither.
    """
    if kind is str:
        return TEXT
    if not is_model(kind):
        raise ConfigurationError(f"need the class of a pydantic model, or str for texts, got {shown(kind)}")
    return kind.__name__


def packed(message: object) -> tuple[str, Any]:
    """Return the name of a message's model, and the message as JSON data.

    Raises:
        ConfigurationError: It is no text and no object of a model, or it cannot be JSON.
    """
    if isinstance(message, str):
        return TEXT, whole(str.__str__(message))
    if not is_model(type(message)):
        got = f"the class {message.__name__}" if isinstance(message, type) else f"a {type(message).__name__}"
        raise ConfigurationError(f"need a message as a text or an object of a pydantic model, got {got}")
    name = type(message).__name__
    model: Any = message
    try:
        with application_code(f"serializers of the model {name}"):
            return name, json.loads(model.model_dump_json(by_alias=False, round_trip=True))
    except Exception:  # noqa: BLE001 - a model's code, whose error may quote the content
        raise ConfigurationError(f"the message of the model {name} cannot be JSON; check its fields") from None


def unpacked(kind: type[M], content: Any) -> M:
    """Return data as an object of a model.

    Raises:
        PeerRejected: They do not fit its schema.
    """
    try:
        with application_code(f"validators of the model {kind.__name__}"):
            return kind.model_validate_json(json.dumps(content), by_alias=False, by_name=True)
    except Exception:  # noqa: BLE001 - as above
        raise PeerRejected(f"the content does not fit the schema of {kind.__name__}") from None


def named(models: tuple[str, ...]) -> str:
    """Return the names of models that an end takes, for an error."""
    return short(", ".join(sorted(name or "texts" for name in models))) or "nothing"


def is_model(kind: object) -> TypeGuard[type[BaseModel]]:
    """Return whether it is the class of a pydantic model."""
    from pydantic import BaseModel

    return isinstance(kind, type) and issubclass(kind, BaseModel)
