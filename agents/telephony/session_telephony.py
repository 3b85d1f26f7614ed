"""SessionTelephony: the telephone of one session, as the session calls it."""

from __future__ import annotations

from vivavoce.agents.extension.extension import Attached, Host
from vivavoce.agents.telephony.key_entry import KeyEntry
from vivavoce.agents.telephony.key_input import KeyInput
from vivavoce.agents.telephony.telephony import Telephony


class SessionTelephony(Attached):
    """The telephone of one session; its face is what applications use.

    Args:
        host: The session.
        keys, keys_as_turn: As of `TelephonyOptions`.
    """

    def __init__(self, host: Host, keys: KeyEntry | None, keys_as_turn: str) -> None:
        self._keys = KeyInput(host, keys, keys_as_turn)
        self.face = Telephony(host, self._keys)

    def end(self) -> None:
        """Take no more keys: the close begins."""
        self._keys.end()
