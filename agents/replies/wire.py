"""The messages of rich replies between a session and the caller's page, as JSON.

From the session, each with the part's `id`: `type` `markdown` (text), `image` (alt, media_type, size), `file` (name,
media_type, size), `options` (text, options, chosen: the index or null), `form` (title, submit, schema: JSON schema, and
state: `open`, `submitted` or `closed`), `data` (kind, value). The bytes of an image or a file follow as a byte stream
with the attribute `part`. Then

* `answer` (part, outcome, errors): the end of an answer of the page. Outcomes: `accepted`; `invalid`, with errors of
  `path` and `message` each; `closed`, the part takes no answers any more; `failed`, a model's own code raised;
* `uploads` (max_bytes, media_types): the session takes files;
* `upload` (upload, outcome): the end of a file that the page has sent as a byte stream; outcomes: `FileOutcome`.

From the page: `{"part": id, "choice": index}` or `{"part": id, "values": {…}}`.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Literal

from vivavoce.agents.replies.files import image_type
from vivavoce.agents.replies.part import Data, File, Form, Image, Markdown, Options, Part, schema_of
from vivavoce.pipelines.io import FileOutcome, PartMessage

if TYPE_CHECKING:
    from pydantic import ValidationError

MAX_ERRORS = 50
"""The most errors of a form that are sent."""

AnswerOutcome = Literal["accepted", "invalid", "closed", "failed"]
FormState = Literal["open", "submitted", "closed"]
Plain = dict[str, Any]


def plain_of(part: Part) -> Plain:
    """Return the message of a part, without its id and state."""
    match part:
        case Markdown():
            return {"type": "markdown", "text": part.text}
        case Image():
            return {"type": "image", "alt": part.alt, "media_type": image_type(part.data), "size": len(part.data)}
        case File():
            return {"type": "file", "name": part.name, "media_type": part.media_type, "size": len(part.data)}
        case Options():
            return {"type": "options", "text": part.text, "options": list(part.options)}
        case Form():
            title = part.title or str(schema_of(part.model).get("title", ""))
            return {"type": "form", "title": title, "submit": part.submit, "schema": schema_of(part.model)}
        case Data():
            return {"type": "data", "kind": part.kind, "value": part.value}


def bytes_of(part: Part) -> bytes:
    """Return the bytes of an image or a file; b"" for other parts."""
    return part.data if isinstance(part, Image | File) else b""


def text_of(plain: Plain) -> str:
    """Return a part as text, for a reader without a page; "" for data of an application."""
    match plain["type"]:
        case "markdown":
            return str(plain["text"])
        case "image":
            return f"[image: {plain['alt'] or plain['media_type']}]"
        case "file":
            return f"[file: {plain['name']}, {plain['size']} bytes]"
        case "options":
            lines = [f"- {option}" for option in plain["options"]]
            return "\n".join([plain["text"], *lines] if plain["text"] else lines)
        case "form":
            return f"[form: {plain['title']}]"
        case _:
            return ""


def part_message(part_id: str, plain: Plain, data: bytes) -> PartMessage:
    """Return the message that shows the present state of a part."""
    return PartMessage(
        json_text=_text({"id": part_id, **plain}),
        plain=text_of(plain),
        part_id=part_id,
        data=data,
        name=str(plain.get("name", "")),
        media_type=str(plain.get("media_type", "")),
    )


def answer_message(part_id: str, outcome: AnswerOutcome, errors: Sequence[Plain] = ()) -> PartMessage:
    """Return the message about the end of an answer."""
    return PartMessage(
        json_text=_text({"type": "answer", "part": part_id, "outcome": outcome, "errors": list(errors)}), plain=""
    )


def uploads_message(max_bytes: int, media_types: Sequence[str]) -> PartMessage:
    """Return the message that the session takes files."""
    return PartMessage(json_text=_text({"type": "uploads", "max_bytes": max_bytes, "media_types": list(media_types)}))


def upload_message(upload_id: str, outcome: FileOutcome) -> PartMessage:
    """Return the message about the end of a file of the caller."""
    return PartMessage(json_text=_text({"type": "upload", "upload": upload_id, "outcome": outcome}))


def errors_of(error: ValidationError) -> list[Plain]:
    """Return the errors of a form's values, without the values."""
    found = error.errors(include_url=False, include_input=False, include_context=False)[:MAX_ERRORS]
    return [{"path": [str(step) for step in one["loc"]], "message": one["msg"]} for one in found]


def _text(plain: Plain) -> str:
    return json.dumps(plain, ensure_ascii=False, allow_nan=False, separators=(",", ":"))
