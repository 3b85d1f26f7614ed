"""The parts of a rich reply: Markdown, Image, File, Options, Form, Data. Values, which check themselves."""

from __future__ import annotations

import mimetypes
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, TypeAlias, TypeVar

from vivavoce.agents.core.values import Json, encode
from vivavoce.agents.replies.files import image_type, safe_name, safe_type
from vivavoce.pipelines.core.checks import check_items, check_text, shown
from vivavoce.pipelines.core.errors import ConfigurationError

if TYPE_CHECKING:
    from pydantic import BaseModel

ModelT = TypeVar("ModelT", bound="BaseModel")

MAX_TEXT = 100_000
"""The most characters of a Markdown text."""
MAX_LABEL = 1_000
"""The most characters of a label, such as an option."""
MAX_OPTIONS = 50
MAX_BYTES = 8 * 1024 * 1024
"""The most bytes of an image or a file."""


@dataclass(frozen=True, slots=True)
class Markdown:
    """A text with headings, lists, links, code and emphasis; the page shows HTML in it as it is written.

    Args:
        text: At most 100,000 characters.
    """

    text: str = field(repr=False)

    def __post_init__(self) -> None:
        _check_length("text", self.text, MAX_TEXT)


@dataclass(frozen=True, slots=True)
class Image:
    """A picture.

    Args:
        data: A PNG, JPEG, GIF or WebP file, at most 8 MiB.
        alt: A description of the picture, for callers who cannot see it.
    """

    data: bytes = field(repr=False)
    alt: str = field(default="", kw_only=True, repr=False)

    def __post_init__(self) -> None:
        _check_bytes("an image", self.data)
        if not image_type(self.data):
            raise ConfigurationError(
                f"an image must be a PNG, JPEG, GIF or WebP file, got {shown(self.data[:12])}…; send others as a File"
            )
        _check_length("alt", self.alt, MAX_LABEL, may_be_empty=True)


@dataclass(frozen=True, slots=True)
class File:
    """A file that the caller may save.

    Args:
        name: Its name for the caller. Folders and signs that a file name cannot have are left out.
        data: At most 8 MiB.
        media_type: Such as `application/pdf`; "" to choose it by the name.
    """

    name: str
    data: bytes = field(repr=False)
    media_type: str = ""

    def __post_init__(self) -> None:
        _check_length("name", self.name, MAX_LABEL)
        _check_bytes("a file", self.data)
        check_text("media_type", self.media_type)
        given = self.media_type or mimetypes.guess_type(self.name)[0] or ""
        object.__setattr__(self, "name", safe_name(self.name))
        object.__setattr__(self, "media_type", safe_type(given))


@dataclass(frozen=True, slots=True)
class Options:
    """A choice. The caller's choice is a typed turn, as if the caller had typed the option.

    Args:
        options: 1 to 50 different texts.
        text: Shown above them, such as the question.
    """

    options: Sequence[str] = field(repr=False)
    text: str = field(default="", repr=False)

    def __post_init__(self) -> None:
        given = check_items("options", self.options, str)
        if not 0 < len(given) <= MAX_OPTIONS or len(set(given)) < len(given):
            raise ConfigurationError(f"need 1 to {MAX_OPTIONS} different options, got {shown(list(given))}")
        for option in given:
            _check_length("an option", option, MAX_LABEL)
        _check_length("text", self.text, MAX_LABEL, may_be_empty=True)
        object.__setattr__(self, "options", given)


@dataclass(frozen=True, slots=True)
class Form:
    """A form with a field for each field of a pydantic model.

    The values must pass the model: the page shows its errors beside the fields, and the event `form_submitted` has the
    model's object. Titles, descriptions and defaults of the model's fields are shown to the caller.

    Args:
        model: The class.
        title: Shown above the form; "" for the model's title.
        submit: Label of the button.
    """

    model: type[BaseModel]
    title: str = field(default="", repr=False)
    submit: str = field(default="Send", repr=False)

    def __post_init__(self) -> None:
        from pydantic import BaseModel

        if not (isinstance(self.model, type) and issubclass(self.model, BaseModel)):
            raise ConfigurationError(f"a form needs a class of pydantic's BaseModel, got {shown(self.model)}")
        schema_of(self.model)
        _check_length("title", self.title, MAX_LABEL, may_be_empty=True)
        _check_length("submit", self.submit, MAX_LABEL)


@dataclass(frozen=True, slots=True)
class Data:
    """Any other content, for a page of the application; our own page shows nothing.

    Args:
        kind: Tells the application's page how to show it.
        value: JSON, at most 1 MiB.
    """

    kind: str
    value: Json = field(repr=False)

    def __post_init__(self) -> None:
        _check_length("kind", self.kind, MAX_LABEL)
        encode(self.value)


Part: TypeAlias = Markdown | Image | File | Options | Form | Data
PARTS = (Markdown, Image, File, Options, Form, Data)


def schema_of(model: type[BaseModel]) -> dict[str, Any]:
    """Return the JSON schema of the values that a model takes.

    Raises:
        ConfigurationError: A field of the model has none.
    """
    from pydantic.errors import PydanticUserError

    try:
        return model.model_json_schema(mode="validation")
    except PydanticUserError as error:
        raise ConfigurationError(
            f"each field of {model.__name__} must have a JSON schema, for a form: {error.message}"
        ) from error


def check_part(part: object) -> Part:
    """Return the part if it is one.

    Raises:
        ConfigurationError: It is not a part.
    """
    if isinstance(part, PARTS):
        return part
    raise ConfigurationError(f"post() needs {', '.join(kind.__name__ for kind in PARTS)}, got {shown(part)}")


def _check_length(name: str, text: object, most: int, *, may_be_empty: bool = False) -> None:
    given = check_text(name, text)
    if len(given) > most or not (given.strip() or may_be_empty):
        raise ConfigurationError(
            f"need {name} of {'0' if may_be_empty else '1'} to {most} characters, got {len(given)}"
        )
    if given != text:
        raise ConfigurationError(f"need {name} as Unicode text, got half of a surrogate pair in it")


def _check_bytes(what: str, data: object) -> None:
    if not isinstance(data, bytes):
        raise ConfigurationError(f"{what} must be bytes, got {shown(data)}; read the file, or use bytes(…)")
    if not 0 < len(data) <= MAX_BYTES:
        raise ConfigurationError(f"{what} must have 1 to {MAX_BYTES} bytes, got {len(data)}; send a link instead")
