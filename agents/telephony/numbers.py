"""Checks of the numbers and addresses that calls go to."""

from __future__ import annotations

import re

from vivavoce.pipelines.core.checks import check_text, shown
from vivavoce.pipelines.core.errors import ConfigurationError

_NUMBER = re.compile(r"\+?[0-9]{2,20}")
_WRITTEN = re.compile(r"[ ()./-]")
"""Characters with which people write numbers."""
_SIP = re.compile(r"sips?:[^\s@]+@[^\s@]+|tel:\+?[0-9-]{2,20}")


def checked_number(name: str, value: object) -> str:
    """Return a telephone number as the line takes it: digits, with a + before a country code.

    Raises:
        ConfigurationError: It is none.
    """
    number = _WRITTEN.sub("", check_text(name, value))
    if not _NUMBER.fullmatch(number):
        raise ConfigurationError(f"{name} must be a telephone number such as '+15550100', got {shown(value)}")
    return number


def checked_target(name: str, value: object) -> str:
    """Return the address that a transfer goes to: a SIP address as it is, a number as `tel:`.

    Raises:
        ConfigurationError: It is neither.
    """
    text = check_text(name, value).strip()
    if _SIP.fullmatch(text):
        return text
    try:
        return f"tel:{checked_number(name, text)}"
    except ConfigurationError:
        raise ConfigurationError(
            f"{name} must be a telephone number, or an address such as 'sip:desk@example.com', got {shown(value)}"
        ) from None
