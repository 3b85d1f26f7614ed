"""A server's text is shown without secrets, and not at all if it quotes the conversation."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from vivavoce.pipelines.net.redaction import MESSAGE_LIMIT, Redaction


@pytest.mark.parametrize(
    ("message", "shown"),
    [
        ("the key abc/def is wrong", "the key *** is wrong"),
        ("GET /listen?key=abc%2Fdef failed", "GET /listen?key=*** failed"),
        ("Incorrect API key: sk-proj-*****abcd.", "Incorrect API key: ***."),
        ("wrong sk_live_12345678", "wrong ***"),
        ("wrong a1b2****c3d4", "wrong ***"),
        ("two\n lines\tand\x07 a bell", "two lines and a bell"),
        ("  ", ""),
        (None, ""),
        ({"message": "abc/def"}, ""),
        ("x" * 1000, "x" * MESSAGE_LIMIT + "…"),
    ],
)
def test_secrets_are_masked(message: object, shown: str) -> None:
    assert Redaction(["abc/def", ""])(message) == shown


def test_the_longest_secret_is_masked_whole() -> None:
    assert Redaction(["abcd", "Bearer abcd-efgh"])("sent Bearer abcd-efgh") == "sent ***"


@pytest.mark.parametrize("message", ["cannot parse 'my number is 12345678'", "4711?", "data:image/png;base64,AAAA"])
def test_a_quotation_is_withheld(message: str) -> None:
    redact = Redaction(said=lambda: ["Hello, my number is 12345678, thanks", "4711", "no"])
    assert redact(message) == "(the server's message is withheld, since it quotes the conversation)"
    assert redact("no model of that name") == "no model of that name"


def test_what_is_said_later_is_withheld_too() -> None:
    said: list[str] = []
    redact = Redaction(said=lambda: said)
    assert redact("bad input: quite confidential") != ""
    said.append("quite confidential")
    assert "confidential" not in redact("bad input: quite confidential")


@given(st.text(min_size=1), st.text(), st.text())
def test_no_secret_survives(secret: str, before: str, after: str) -> None:
    if secret.strip(" \n\t*.…") and secret.isprintable():
        shown = Redaction([secret])(before + secret + after)
        assert secret not in shown.replace("***", "") or secret in (before + after)


def test_a_redaction_shows_no_secret_itself() -> None:
    assert "abc" not in repr(Redaction(["abc"]))
