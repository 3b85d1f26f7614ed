"""Redaction: a server's text without secrets and without words of the conversation."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from urllib.parse import quote

MESSAGE_LIMIT = 300
"""Length of a server's text that is passed on."""

READ_LIMIT = 2000
"""Length of a server's text that is looked at."""

QUOTE_WORDS = 4
"""Words in a row that count as a quotation."""

QUOTE_CHARACTERS = 4
"""A shorter text may occur in any message."""

KEY = re.compile(r"\b(?:sk|gsk|pk|key)[-_][\w*-]{4,}|(?<![\w-])[\w-]*\*{3,}[\w*-]*")
"""Texts that look like a key, also half masked."""

NO_WORD = re.compile(r"[^\w]+")


def no_words() -> tuple[str, ...]:
    """Return no texts: nothing was said that a server may quote."""
    return ()


class Redaction:
    """Makes a server's text safe to show.

    Args:
        secrets: Masked wherever they occur, also as a URL writes them.
        said: Returns the texts of the conversation, whose words must not be quoted; called for each message.
    """

    def __init__(self, secrets: Iterable[str] = (), said: Callable[[], Iterable[str]] = no_words) -> None:
        self._secrets = sorted({form for one in secrets if one for form in (one, quote(one, safe=""))}, key=len)
        self._said = said

    def __repr__(self) -> str:
        return f"Redaction({len(self._secrets)} secrets)"

    def __call__(self, message: object) -> str:
        """Return `message`, or a substitute for it; "" for anything but text."""
        if not isinstance(message, str) or not message.strip():
            return ""
        for secret in reversed(self._secrets):  # the longest one first: a shorter one may be a part of it
            message = message.replace(secret, "***")
        message = message[:READ_LIMIT]
        if "base64," in message or self._is_quotation(message):
            return "(the server's message is withheld, since it quotes the conversation)"
        message = KEY.sub("***", " ".join(message.split()))
        message = "".join(character for character in message if character.isprintable())
        return message if len(message) <= MESSAGE_LIMIT else f"{message[:MESSAGE_LIMIT]}…"

    def _is_quotation(self, message: str) -> bool:
        told = " ".join(_words(message))
        for text in self._said():
            words = _words(text)
            size = min(QUOTE_WORDS, len(words))
            runs = (" ".join(words[at : at + size]) for at in range(len(words) - size + 1))
            if any(len(run) >= QUOTE_CHARACTERS and run in told for run in runs):
                return True
        return False


def _words(text: str) -> list[str]:
    return NO_WORD.sub(" ", text.casefold()).split()
