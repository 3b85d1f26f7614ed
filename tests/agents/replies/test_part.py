"""Parts check themselves, and what they say to a page and to a reader of text."""

from __future__ import annotations

import json
from collections.abc import Callable
from datetime import date
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import BaseModel, ConfigDict, Field

from vivavoce.agents.replies.answer import MAX_ANSWER, read_answer
from vivavoce.agents.replies.files import MAX_NAME, image_type, safe_name, safe_type
from vivavoce.agents.replies.kept import MAX_PARTS, MAX_RECORDED_BYTES, KeptParts, answer, record_of
from vivavoce.agents.replies.part import (
    MAX_BYTES,
    Data,
    File,
    Form,
    Image,
    Markdown,
    Options,
    Part,
    check_part,
)
from vivavoce.agents.replies.wire import bytes_of, plain_of, text_of
from vivavoce.pipelines.core.errors import ConfigurationError, StoreValueError

PNG = b"\x89PNG\r\n\x1a\n" + bytes(20)


class Booking(BaseModel):
    """A table."""

    model_config = ConfigDict(title="Your table")

    day: date
    people: int = Field(default=2, ge=1)


class Unknown:
    """No type that pydantic knows."""


class Odd(BaseModel):
    model_config = ConfigDict(arbitrary_types_allowed=True)

    thing: Unknown


@pytest.mark.parametrize(
    ("make", "words"),
    [
        (lambda: Markdown(""), "need text of 1 to 100000 characters, got 0"),
        (lambda: Markdown("x" * 100_001), "got 100001"),
        (lambda: Markdown(7), "need text as a str"),  # type: ignore[arg-type]
        (lambda: Markdown("half \ud800"), "half of a surrogate pair"),
        (lambda: Image(b"<svg>"), "PNG, JPEG, GIF or WebP"),
        (lambda: Image("cat.png"), "must be bytes"),  # type: ignore[arg-type]
        (lambda: File("a.bin", b""), "1 to 8388608 bytes, got 0"),
        (lambda: File("a.bin", bytes(MAX_BYTES + 1)), "send a link instead"),
        (lambda: Options([]), "1 to 50 different options"),
        (lambda: Options(["a", "a"]), "different options"),
        (lambda: Options("ab"), "need options as a list"),
        (lambda: Options(["a", ""]), "need an option of 1"),
        (lambda: Form(Booking(day=date(2026, 1, 1))), "a class of pydantic's BaseModel"),  # type: ignore[arg-type]
        (lambda: Form(Odd), "each field of Odd must have a JSON schema"),
        (lambda: Data("", 1), "need kind of 1"),
        (lambda: check_part("text"), "Markdown, Image, File, Options, Form, Data, got 'text'"),
    ],
)
def test_a_part_that_cannot_be_shown_is_refused_with_the_remedy(make: Callable[[], Part], words: str) -> None:
    with pytest.raises(ConfigurationError, match=words):
        make()


def test_data_must_be_json() -> None:
    with pytest.raises(StoreValueError):
        Data("map", {1, 2})


def test_a_part_shows_no_content_in_its_repr() -> None:
    secret = "my card is 4711"
    parts = [Markdown(secret), Image(PNG, alt=secret), File("a", secret.encode()), Options([secret]), Data("k", secret)]
    assert not [part for part in parts if secret in repr(part)]


@pytest.mark.parametrize(
    ("part", "plain", "text"),
    [
        (Markdown("**hi**"), {"type": "markdown", "text": "**hi**"}, "**hi**"),
        (
            Image(PNG, alt="A cat"),
            {"type": "image", "alt": "A cat", "media_type": "image/png", "size": 28},
            "[image: A cat]",
        ),
        (
            File("../menu.pdf", b"%PDF"),
            {"type": "file", "name": "menu.pdf", "media_type": "application/pdf", "size": 4},
            "[file: menu.pdf, 4 bytes]",
        ),
        (
            Options(["red", "blue"], "Which?"),
            {"type": "options", "text": "Which?", "options": ["red", "blue"]},
            "Which?\n- red\n- blue",
        ),
        (Data("map", [1]), {"type": "data", "kind": "map", "value": [1]}, ""),
    ],
)
def test_a_part_is_a_message_for_a_page_and_a_text_for_a_reader(part: Part, plain: dict[str, Any], text: str) -> None:
    assert plain_of(part) == plain
    assert text_of(plain) == text
    assert bytes_of(part) == getattr(part, "data", b"")


def test_a_form_is_the_schema_of_its_model() -> None:
    plain = plain_of(Form(Booking, submit="Book"))
    assert (plain["title"], plain["submit"]) == ("Your table", "Book")
    assert plain["schema"]["properties"]["people"] == {"default": 2, "minimum": 1, "title": "People", "type": "integer"}
    assert text_of(plain) == "[form: Your table]"
    assert plain_of(Form(Booking, title="When?"))["title"] == "When?"


@pytest.mark.parametrize(
    ("given_name", "safe"),
    [
        ("report.pdf", "report.pdf"),
        ("../../etc/passwd", "passwd"),
        ("C:\\temp\\a.txt", "a.txt"),
        (" .hidden. ", "hidden"),
        ("a\x00b\u202etxt.exe", "abtxt.exe"),
        ("CON.txt", "_CON.txt"),
        ("/", "file"),
        ("", "file"),
        ('a<b>:"|?*.txt', "a_b______.txt"),
        ("x" * 300 + ".jpeg", "x" * 115 + ".jpeg"),
    ],
)
def test_a_name_of_a_file_leads_nowhere_else(given_name: str, safe: str) -> None:
    assert safe_name(given_name) == safe


@given(st.text(max_size=400))
def test_any_name_becomes_one_that_a_file_system_takes_and_that_stays_the_same(text: str) -> None:
    name = safe_name(text)
    assert 0 < len(name) <= MAX_NAME
    assert name.isprintable() or all(not sign.isprintable() or sign for sign in name)
    assert not set(name) & set('/\\<>:"|?*\x00')
    assert name not in (".", "..")
    assert safe_name(name) == name


@pytest.mark.parametrize(
    ("media_type", "safe"),
    [
        ("Text/HTML; charset=utf-8", "text/html"),
        ("", "application/octet-stream"),
        ("a/b/c", "application/octet-stream"),
    ],
)
def test_a_media_type_is_one_or_bytes(media_type: str, safe: str) -> None:
    assert safe_type(media_type) == safe


def test_an_image_is_known_by_its_bytes() -> None:
    begins = {
        b"\xff\xd8\xff\xe0": "image/jpeg",
        b"GIF89a": "image/gif",
        b"RIFF1234WEBPVP8 ": "image/webp",
        b"<html>": "",
    }
    assert {begin: image_type(begin) for begin in begins} == begins


@pytest.mark.parametrize(
    "text",
    [
        "", "7", "{", '{"part": 7, "choice": 1}', '{"part": "a"}', '{"part": "a", "choice": 1, "values": {}}',
        '{"part": "a", "choice": true}', '{"part": "a", "values": []}', '{"part": "a", "choice": 1, "more": 1}',
        json.dumps({"part": "a", "values": {"x": "y" * MAX_ANSWER}}), "[" * 100_000,
    ],
)  # fmt: skip
def test_an_answer_that_is_none_is_left_out(text: str) -> None:
    assert read_answer(text) is None


def test_a_part_is_restored_from_its_records_with_its_answer_and_a_form_is_closed() -> None:
    kept, records = KeptParts(), list[str]()
    parts: list[Part] = [Markdown("hi"), Options(["a", "b"]), Form(Booking), Form(Booking), Image(PNG)]
    for number, part in enumerate(parts):
        records.append(record_of(kept.add(f"part_{number}", part), at=1.0))
    choice, form = kept.get("part_1"), kept.get("part_2")
    assert choice is not None
    assert form is not None
    records += [answer(choice, 1), answer(form)]

    restored = KeptParts()
    restored.restore(records)

    shown = [json.loads(part.message.json_text) for part in restored]
    assert [(one["id"], one.get("chosen"), one.get("state")) for one in shown] == [
        ("part_0", None, None),
        ("part_1", 1, None),
        ("part_2", None, "submitted"),
        ("part_3", None, "closed"),
        ("part_4", None, None),
    ]
    assert [part.data for part in restored][-1] == PNG


def test_the_record_of_a_large_file_has_no_bytes_and_the_file_is_not_restored() -> None:
    record = record_of(KeptParts().add("part_1", File("big.bin", bytes(MAX_RECORDED_BYTES + 1))), at=1.0)
    assert len(record) < 1000
    restored = KeptParts()
    restored.restore([record])
    assert list(restored) == []


def test_only_the_newest_parts_are_kept() -> None:
    kept = KeptParts()
    for number in range(MAX_PARTS + 5):
        kept.add(f"part_{number}", Markdown("x"))
    assert [part.id for part in kept][:1] == ["part_5"]
    for number in range(5):
        kept.add(f"file_{number}", File("a.bin", bytes(MAX_BYTES)))
    assert [part.id for part in kept] == ["file_1", "file_2", "file_3", "file_4"]


def test_the_texts_of_parts_count_too() -> None:
    kept = KeptParts()
    for number in range(36):
        kept.add(f"part_{number}", Data("map", "x" * (1024 * 1024 - 2)))
    assert [part.id for part in kept] == [f"part_{number}" for number in range(3, 36)]
