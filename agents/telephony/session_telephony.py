"""SessionTelephony: the telephone of one session, as the session calls it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from vivavoce.agents.extension.extension import Attached, Host
from vivavoce.agents.telephony.calls import Calls
from vivavoce.agents.telephony.egress import Egress
from vivavoce.agents.telephony.hold import Hold
from vivavoce.agents.telephony.key_input import KeyInput
from vivavoce.agents.telephony.telephony import Telephony
from vivavoce.agents.telephony.warm_transfer import WarmTransfers

if TYPE_CHECKING:
    from vivavoce.agents.telephony.detection.detection import AnswerDetection


class SessionTelephony(Attached):
    """The telephone of one session; its face is what applications use."""

    def __init__(self, host: Host, keys: KeyInput, calls: Calls, detection: AnswerDetection | None = None) -> None:
        self._keys = keys
        self._hold = Hold(host.context)
        self._transfers = WarmTransfers(host, calls, self._hold)
        self._egress = Egress(host.context, calls)
        self.face = Telephony(host, keys, calls, self._hold, self._transfers, self._egress, detection)

    def end(self) -> None:
        """Take no more keys, and end the hold: the close begins."""
        self._keys.end()
        self._hold.change("talking")

    @property
    def has_work(self) -> bool:
        """Whether a warm transfer is under way, or an egress runs."""
        return self._transfers.is_under_way or self._egress.may_run

    async def aclose(self) -> None:
        """End the warm transfer, and stop the egress."""
        await self._transfers.aclose()
        await self._egress.aclose()
