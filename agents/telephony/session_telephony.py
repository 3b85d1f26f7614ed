"""SessionTelephony: the telephone of one session, as the session calls it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from vivavoce.agents.extension.extension import Attached, Host
from vivavoce.agents.telephony.calls import Calls
from vivavoce.agents.telephony.key_input import KeyInput
from vivavoce.agents.telephony.telephony import Telephony

if TYPE_CHECKING:
    from vivavoce.agents.telephony.detection.detection import AnswerDetection


class SessionTelephony(Attached):
    """The telephone of one session; its face is what applications use."""

    def __init__(self, host: Host, keys: KeyInput, calls: Calls, detection: AnswerDetection | None = None) -> None:
        self._keys = keys
        self.face = Telephony(host, keys, calls, detection)

    def end(self) -> None:
        """Take no more keys: the close begins."""
        self._keys.end()
