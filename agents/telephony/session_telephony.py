"""SessionTelephony: the telephone of one session, as the session calls it."""

from __future__ import annotations

from vivavoce.agents.extension.extension import Attached, Host
from vivavoce.agents.telephony.calls import Calls
from vivavoce.agents.telephony.hold import Hold
from vivavoce.agents.telephony.key_input import KeyInput
from vivavoce.agents.telephony.telephony import Telephony


class SessionTelephony(Attached):
    """The telephone of one session; its face is what applications use."""

    def __init__(self, host: Host, keys: KeyInput, calls: Calls) -> None:
        self._keys = keys
        self._hold = Hold(host.context)
        self.face = Telephony(host, keys, calls, self._hold)

    def end(self) -> None:
        """Take no more keys, and end the hold: the close begins."""
        self._keys.end()
        self._hold.change("talking")
