"""Telephony: keys, calls and transfers of a session, as an extension (`session.telephony`).

* `options`: `TelephonyOptions`; `key_entry`: how keys become an entry.
* `session_telephony`: the part of one session; `telephony`: its face for applications.
* `collector`, `key_input`: the pure rule of an entry, and the keys of a session; `tones`: keys as audio.
* `detection`: who has answered a call out.
* `calls`: calls out and transfers by the server's API; `outcome`: how they end; `numbers`: checks of numbers.
* `hold`: the caller on hold; `warm_transfer`, `briefing`, `side_room`: transfers to a person who is briefed before.
* `egress`: the recording of the room by LiveKit's egress.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from vivavoce.pipelines.core.lazy import lazy_names

if TYPE_CHECKING:
    from vivavoce.agents.telephony.briefing import Briefing
    from vivavoce.agents.telephony.collector import EnteredKeys
    from vivavoce.agents.telephony.detection.options import MachineDetection
    from vivavoce.agents.telephony.detection.verdict import CallVerdict
    from vivavoce.agents.telephony.egress import EgressRecording
    from vivavoce.agents.telephony.key_entry import KeyEntry
    from vivavoce.agents.telephony.options import TelephonyOptions
    from vivavoce.agents.telephony.outcome import CallOutcome
    from vivavoce.agents.telephony.telephony import Telephony
    from vivavoce.pipelines.io import CallerInfo

_PLACES = {
    "vivavoce.agents.telephony.briefing": "Briefing",
    "vivavoce.agents.telephony.collector": "EnteredKeys",
    "vivavoce.agents.telephony.detection.options": "MachineDetection",
    "vivavoce.agents.telephony.detection.verdict": "CallVerdict",
    "vivavoce.agents.telephony.egress": "EgressRecording",
    "vivavoce.agents.telephony.key_entry": "KeyEntry",
    "vivavoce.agents.telephony.options": "TelephonyOptions",
    "vivavoce.agents.telephony.outcome": "CallOutcome",
    "vivavoce.agents.telephony.telephony": "Telephony",
    "vivavoce.pipelines.io": "CallerInfo",
}

__all__ = [
    "Briefing",
    "CallOutcome",
    "CallVerdict",
    "CallerInfo",
    "EgressRecording",
    "EnteredKeys",
    "KeyEntry",
    "MachineDetection",
    "Telephony",
    "TelephonyOptions",
]

if not TYPE_CHECKING:
    __getattr__, __dir__ = lazy_names(__name__, _PLACES)
