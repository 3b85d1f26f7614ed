"""The page's JavaScript codec against python's livekit.protocol: the same bytes, both ways, and broken ones refused."""

from __future__ import annotations

import base64
import json
import random
from collections.abc import Iterator
from typing import Any

import pytest
from google.protobuf import json_format
from google.protobuf.descriptor import FieldDescriptor
from google.protobuf.message import Message
from google.protobuf.message_factory import GetMessageClass

from kit.page.browser import ModulesPage, page_for_modules
from kit.page.schema import MESSAGES, descriptor

pytestmark = [pytest.mark.e2e, pytest.mark.timeout(120)]

TEXTS = ("", "a", "grüße", "🙂" * 40, "x" * 300, "\x00", "line\nline")
NUMBERS = (1, 127, 128, 300, 65_535, 2**31 - 1)
WIDE = (*NUMBERS, 2**32 - 1, 2**53 - 1)
MAX_DEPTH = 5

DRIVER = """
async ({ cases, broken }) => {
    const { encode, decode } = await import('/codec.js');
    const bytes = (text) => Uint8Array.from(atob(text), (x) => x.charCodeAt(0));
    const text = (bytes) => btoa(Array.from(bytes, (x) => String.fromCharCode(x)).join(''));
    const asText = (value) => JSON.stringify(value, (key, x) => x instanceof Uint8Array ? { bytes: text(x) } : x);
    const errors = [];
    for (const [message, data] of broken) {
        try { decode(message, bytes(data)); errors.push('none'); } catch (error) { errors.push(error.message); }
    }
    return { errors, read: cases.map(([message, data]) => {
        const object = decode(message, bytes(data));
        return [asText(object), text(encode(message, object))];
    }) };
}
"""


@pytest.fixture(scope="module")
def page() -> Iterator[ModulesPage]:
    with page_for_modules() as page:
        yield page


def _scalar(field: FieldDescriptor, dice: random.Random) -> Any:
    if field.enum_type is not None:
        return dice.choice([value.number for value in field.enum_type.values])
    kind = field.cpp_type
    if kind == FieldDescriptor.CPPTYPE_STRING:
        text = dice.choice(TEXTS)
        return text if field.type == FieldDescriptor.TYPE_STRING else text.encode() + bytes(range(256))
    if kind == FieldDescriptor.CPPTYPE_BOOL:
        return dice.random() < 0.8
    if kind in (FieldDescriptor.CPPTYPE_FLOAT, FieldDescriptor.CPPTYPE_DOUBLE):
        return dice.choice((0.5, -1.25, 1e10, 3.0))
    if kind == FieldDescriptor.CPPTYPE_INT64:
        return dice.choice((*WIDE, -1, -(2**40)))
    if kind == FieldDescriptor.CPPTYPE_INT32:
        return dice.choice((*NUMBERS, -1, -5_000))
    return dice.choice(WIDE if kind == FieldDescriptor.CPPTYPE_UINT64 else (*NUMBERS, 2**32 - 1))


def _fill(message: Message, name: str, dice: random.Random, depth: int = 0) -> Message:
    for field_name in MESSAGES[name].split():
        field: Any = message.DESCRIPTOR.fields_by_name[field_name]
        if dice.random() < 0.35:
            continue
        inner = field.message_type
        if inner is not None and inner.GetOptions().map_entry:
            for _ in range(dice.randrange(4)):
                getattr(message, field_name)[dice.choice((*TEXTS, "__proto__", "constructor"))] = dice.choice(TEXTS)
        elif inner is not None and depth < MAX_DEPTH:
            _fill_inner(message, field, dice, depth)
        elif inner is None and field.is_repeated:
            getattr(message, field_name).extend(_scalar(field, dice) for _ in range(dice.randrange(3)))
        elif inner is None:
            setattr(message, field_name, _scalar(field, dice))
    return message


def _fill_inner(message: Message, field: FieldDescriptor, dice: random.Random, depth: int) -> None:
    inner: Any = field.message_type
    name = inner.full_name.removeprefix("livekit.")
    if field.is_repeated:
        for _ in range(dice.randrange(3)):
            _fill(getattr(message, field.name).add(), name, dice, depth + 1)
    else:
        part = getattr(message, field.name)
        part.SetInParent()
        _fill(part, name, dice, depth + 1)


def _plain(message: Message) -> dict[str, Any]:
    """Return a message as the codec reads it: wire names, numbers, defaults left out."""
    out: dict[str, Any] = {}
    for field, value in message.ListFields():
        inner = field.message_type
        if inner is not None and inner.GetOptions().map_entry:
            out[field.name] = dict(value)
        elif inner is not None:
            out[field.name] = [_plain(item) for item in value] if field.is_repeated else _plain(value)
        elif field.type == FieldDescriptor.TYPE_BYTES:
            out[field.name] = {"bytes": base64.b64encode(value).decode()}
        else:
            out[field.name] = list(value) if field.is_repeated else value
    return out


def test_every_message_is_read_and_written_as_pythons_protobuf_does(page: ModulesPage) -> None:
    dice = random.Random(7)
    made = [(name, _fill(GetMessageClass(descriptor(name))(), name, dice)) for name in MESSAGES for _ in range(20)]
    cases = [(name, base64.b64encode(message.SerializeToString()).decode()) for name, message in made]
    result = page.evaluate(DRIVER, {"cases": cases, "broken": []})
    assert len(made) > 800
    for (name, message), (read, written) in zip(made, result["read"], strict=True):
        assert json.loads(read) == _plain(message), name
        again = type(message).FromString(base64.b64decode(written))
        assert again == message, f"{name}: {json_format.MessageToJson(message)}"


def test_bytes_that_are_cut_off_too_deep_or_no_message_are_refused(page: ModulesPage) -> None:
    from livekit.protocol import rtc

    whole = rtc.SignalRequest(offer=rtc.SessionDescription(type="offer", sdp="v=0" * 50)).SerializeToString()
    cut = [("SignalRequest", base64.b64encode(whole[:length]).decode()) for length in range(1, len(whole))]
    broken = {
        "a number is longer than ten bytes": ("Ping", b"\x08" + b"\xff" * 10 + b"\x01"),
        "wire type 3 is not known": ("Ping", b"\x0b"),
        "the message is cut off": ("Room", b"\x0a\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01a"),
    }
    odd = [(name, base64.b64encode(data).decode()) for name, data in broken.values()]
    result = page.evaluate(DRIVER, {"cases": [], "broken": cut + odd})
    assert set(result["errors"][: len(cut)]) == {"the message is cut off"}
    assert result["errors"][len(cut) :] == list(broken)


def test_unknown_fields_and_those_of_another_wire_type_are_skipped(page: ModulesPage) -> None:
    unknown = b"\xfa\x3f\x03abc" + b"\xf8\x3f\x01" + b"\xfd\x3f\x00\x00\x80\x3f" + b"\xf9\x3f" + bytes(8)
    wrong = b"\x08\x07"  # field 1 of Room is text
    data = base64.b64encode(unknown + wrong + b"\x12\x02ab").decode()
    result = page.evaluate(DRIVER, {"cases": [("Room", data)], "broken": []})
    assert json.loads(result["read"][0][0]) == {"name": "ab"}


def test_long_texts_are_cut_between_characters(page: ModulesPage) -> None:
    lengths = page.evaluate(
        """async () => {
            const { chunks } = await import('/data.js');
            const text = 'a' + '🙂'.repeat(10000), strict = new TextDecoder('utf-8', { fatal: true });
            const pieces = [...chunks(new TextEncoder().encode(text))];
            return [pieces.map((piece) => piece.length), pieces.map((piece) => strict.decode(piece)).join('') === text];
        }"""
    )
    assert lengths == [[14_997, 15_000, 10_004], True]


def test_a_waterfall_and_its_median_are_what_the_record_says(page: ModulesPage) -> None:
    values = page.evaluate(
        """async () => {
            const { median, parseRecord } = await import('/turns.js');
            const { briefly } = await import('/captions.js');
            return [median([3, 1, 2]), median([4, 1, 2, 3]), parseRecord('7'), parseRecord('{"turn_id": "t"}'),
                    briefly('{"day": "friday", "n": 4, "more": [1]}'), briefly('[1]'), briefly('no json')];
        }"""
    )
    assert values[:3] == [2, 2.5, None]
    assert values[3] == {"turn_id": "t", "stages": [], "tools": [], "e2e_latency": None}
    assert values[4:] == ["day: friday, n: 4, more: [1]", "[1]", "no json"]
