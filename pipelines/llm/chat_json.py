"""Items as JSON data and back. Version 1; later versions only add fields, which an older reader ignores."""

from __future__ import annotations

import base64
import binascii
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import MISSING, Field, asdict, fields, replace
from typing import Any, Literal, get_args, get_origin, get_type_hints

from vivavoce.pipelines.core.errors import ConfigurationError
from vivavoce.pipelines.llm.chat_items import (
    AgentHandoff,
    ChatItem,
    ChatMessage,
    ConfigChange,
    FunctionCall,
    FunctionCallOutput,
    Voice,
)
from vivavoce.pipelines.media.frame import VideoFrame

HISTORY_VERSION = 1

_KINDS: tuple[type[ChatItem], ...] = (ChatMessage, FunctionCall, FunctionCallOutput, AgentHandoff, ConfigChange)
_HINTS: Mapping[type, dict[str, Any]] = {kind: get_type_hints(kind) for kind in _KINDS}


def items_to_json(items: Sequence[ChatItem], *, images: bool) -> dict[str, Any]:
    """Return plain data that `json.dumps` takes."""
    return {"version": HISTORY_VERSION, "items": [item_to_json(item, images=images) for item in items]}


def items_from_json(data: object) -> list[ChatItem]:
    """Return the items from the data of `items_to_json`.

    Raises:
        ConfigurationError: The data is of another version or shape; the error names the place, and quotes no content.
    """
    if not isinstance(data, Mapping):
        raise ConfigurationError(f"a history must be an object with 'version' and 'items', got {_kind(data)}")
    if data.get("version") != HISTORY_VERSION:
        raise ConfigurationError(
            f"a history must be of version {HISTORY_VERSION}, got {data.get('version')!r}; "
            "read it with the release of vivavoce that wrote it"
        )
    raw = data.get("items")
    if not isinstance(raw, list):
        raise ConfigurationError(f"items must be a list, got {_kind(raw)}")
    items = [item_from_json(item, place=f"items[{number}]") for number, item in enumerate(raw)]
    seen: set[str] = set()
    for number, item in enumerate(items):
        if item.id in seen:
            raise ConfigurationError(f"items[{number}].id: each item needs an id of its own, got {item.id!r} again")
        seen.add(item.id)
    return items


def item_to_json(item: ChatItem, *, images: bool) -> dict[str, Any]:
    """Return one item as plain data, its pictures in base64 or not at all."""
    if not isinstance(item, ChatMessage):
        return {name: list(value) if isinstance(value, tuple) else value for name, value in asdict(item).items()}
    data = asdict(replace(item, images=(), voices=()))
    del data["images"], data["voices"]
    if item.voices:
        data["voices"] = [asdict(voice) for voice in item.voices]
    if images and item.images:
        data["images"] = [asdict(picture) | {"data": _encode(picture.data)} for picture in item.images]
    return data


def item_from_json(data: object, *, place: str = "item") -> ChatItem:
    """Return the item.

    Raises:
        ConfigurationError: It is of an unknown type, or a field is missing or of a wrong kind; named by `place`.
    """
    if not isinstance(data, Mapping):
        raise ConfigurationError(f"{place} must be an object, got {_kind(data)}")
    kind = next((kind for kind in _KINDS if _type_name(kind) == data.get("type")), None)
    if kind is None:
        known = ", ".join(map(_type_name, _KINDS))
        raise ConfigurationError(f"{place}.type must be one of {known}, got {data.get('type')!r}")
    values: dict[str, Any] = {}
    for field in fields(kind):
        if field.name == "images":
            values["images"] = tuple(_pictures(data.get("images", ()), place=f"{place}.images"))
        elif field.name == "voices":
            values["voices"] = tuple(_voices(data.get("voices", ()), place=f"{place}.voices"))
        elif field.name in data:
            values[field.name] = _read(data[field.name], _HINTS[kind][field.name], place=f"{place}.{field.name}")
        elif field.name == "id" or _is_required(field):
            raise ConfigurationError(f"{place}.{field.name} is missing; it must be {_HINTS[kind][field.name]!r}")
    return kind(**values)


def _type_name(kind: type[ChatItem]) -> str:
    return str(get_args(_HINTS[kind]["type"])[0])


def _is_required(field: Field[Any]) -> bool:
    return field.default is MISSING and field.default_factory is MISSING


def _read(value: object, hint: Any, *, place: str) -> object:
    """Return `value` as the type of a field with the hint `hint`."""
    if hint is float and isinstance(value, int) and not isinstance(value, bool):
        return float(value)
    if hint in (str, bool, int, float):
        fits = type(value) is hint
    elif get_origin(hint) is Literal:
        fits = value in get_args(hint)
    elif get_origin(hint) is tuple:
        fits = isinstance(value, list | tuple) and all(isinstance(part, str) for part in value)
        value = tuple(value) if isinstance(value, list) else value
    else:  # an optional text
        fits = value is None or isinstance(value, str)
    if not fits:
        raise ConfigurationError(f"{place} must be {getattr(hint, '__name__', hint)}, got {_kind(value)}")
    return value


def _pictures(data: object, *, place: str) -> list[VideoFrame]:
    return [_picture(picture, place=where) for where, picture in _objects(data, place=place)]


def _voices(data: object, *, place: str) -> list[Voice]:
    voices: list[Voice] = []
    for where, voice in _objects(data, place=place):
        speaker, start = (
            _read(voice.get(name, ""), kind, place=f"{where}.{name}")
            for name, kind in (("speaker", str), ("start", int))
        )
        voices.append(Voice(speaker, start))  # type: ignore[arg-type]  # read from checked data
    return voices


def _objects(data: object, *, place: str) -> Iterator[tuple[str, Mapping[str, object]]]:
    if not isinstance(data, list | tuple):
        raise ConfigurationError(f"{place} must be a list, got {_kind(data)}")
    for number, part in enumerate(data):
        if not isinstance(part, Mapping):
            raise ConfigurationError(f"{place}[{number}] must be an object, got {_kind(part)}")
        yield f"{place}[{number}]", part


def _picture(data: Mapping[str, object], *, place: str) -> VideoFrame:
    encoded = str(_read(data.get("data"), str, place=f"{place}.data"))
    try:
        decoded = base64.b64decode(encoded.encode(), validate=True)
    except (binascii.Error, UnicodeEncodeError) as error:
        raise ConfigurationError(f"{place}.data must be base64, got something else") from error
    size = {name: _read(data.get(name, 0), int, place=f"{place}.{name}") for name in ("width", "height")}
    media_type = _read(data.get("media_type"), str, place=f"{place}.media_type")
    return VideoFrame(decoded, media_type, **size)  # type: ignore[arg-type]  # read from checked data


def _encode(data: bytes) -> str:
    return base64.b64encode(data).decode()


def _kind(value: object) -> str:
    return "nothing" if value is None else type(value).__name__
