"""SessionTelephony: the telephone of one session, as the session calls it."""

from __future__ import annotations

from vivavoce.agents.extension.extension import Attached, Host
from vivavoce.agents.telephony.calls import Calls
from vivavoce.agents.telephony.hold import Hold
from vivavoce.agents.telephony.key_input import KeyInput
from vivavoce.agents.telephony.telephony import Telephony
from vivavoce.agents.telephony.warm_transfer import WarmTransfers


class SessionTelephony(Attached):
    """The telephone of one session; its face is what applications use."""

    def __init__(self, host: Host, keys: KeyInput, calls: Calls) -> None:
        self._keys = keys
        self._hold = Hold(host.context)
        self._transfers = WarmTransfers(host, calls, self._hold)
        self.face = Telephony(host, keys, calls, self._hold, self._transfers)

    def end(self) -> None:
        """Take no more keys, and end the hold: the close begins."""
        self._keys.end()
        self._hold.change("talking")

    @property
    def has_work(self) -> bool:
        """Whether a warm transfer is under way."""
        return self._transfers.is_under_way

    async def aclose(self) -> None:
        """End the warm transfer."""
        await self._transfers.aclose()
