"""CallOutcome: how a call out or a transfer ended, and the reading of the server's answers and errors."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Literal

from vivavoce.agents.states import CallStatus

if TYPE_CHECKING:
    from livekit import api

BY_SIP_CODE: dict[int, CallStatus] = {
    404: "no_route",
    408: "no_answer",
    410: "no_route",
    480: "no_answer",
    484: "no_route",
    486: "busy",
    487: "no_answer",
    600: "busy",
    603: "declined",
    604: "no_route",
    607: "declined",
}
"""RFC 3261, section 21; RFC 8197 for 607. All others are `failed`."""
REQUEST_TIMEOUT = 408
"""The HTTP status of a call that rang out, or to an address where there is nothing: it has no SIP code."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CallOutcome:
    """The end of the attempt to reach somebody.

    Args:
        status: `answered`, or why not: `busy`, `declined`, `no_answer`, `no_route` (there is no such number, or nothing
            answers at its address), or `failed`.
        identity: The participant that was called, or the one that was transferred.
        sip_code: The SIP code of the refusal; None without one.
        reason: The reason in the words of the line or of the server, or of the person; empty if answered.
        way: Of a warm transfer that was answered: the person was `moved` into the caller's room, or the agent has
            `bridged` the two rooms; else empty.
    """

    status: CallStatus
    identity: str = field(default="", repr=False)
    sip_code: int | None = None
    reason: str = ""
    way: Literal["", "moved", "bridged"] = ""

    @property
    def is_answered(self) -> bool:
        """Whether somebody has answered."""
        return self.status == "answered"


def refused(error: api.TwirpError, identity: str, *, has_rung: bool) -> CallOutcome:
    """Return the outcome that an error of the server is.

    Args:
        has_rung: Whether the telephone was seen ringing: without a SIP code, that alone tells that it exists.
    """
    code = error.metadata.get("sip_status_code", "")
    if code.isdecimal():
        sip_code = int(code)
        reason = error.metadata.get("sip_status") or error.message
        status = BY_SIP_CODE.get(sip_code, "failed")
        return CallOutcome(status=status, identity=identity, sip_code=sip_code, reason=reason)
    if error.status == REQUEST_TIMEOUT:
        return unanswered(identity, has_rung=has_rung)
    return CallOutcome(status="failed", identity=identity, reason=f"{error.code}: {error.message}")


def unanswered(identity: str, *, has_rung: bool) -> CallOutcome:
    """Return the outcome of a call that nobody has answered in time."""
    if has_rung:
        return CallOutcome(status="no_answer", identity=identity, reason="it rang, and nobody answered in time")
    return CallOutcome(status="no_route", identity=identity, reason="nothing answered at the number's address in time")


def transferred(answer: api.TransferSIPParticipantResponse, identity: str) -> CallOutcome:
    """Return the outcome that the answer to a transfer is.

    livekit-server 1.13.5 answers with an empty message, which decodes as an ongoing transfer without an id: no error
    and no id is success.
    """
    from livekit.protocol import sip

    if not answer.transfer_id or answer.status == sip.SIPTransferStatus.STS_TRANSFER_SUCCESSFUL:
        return CallOutcome(status="answered", identity=identity)
    code = answer.sip_status.code or None
    status = "failed" if code is None else BY_SIP_CODE.get(code, "failed")
    reason = "the server did not complete the transfer"
    return CallOutcome(status=status, identity=identity, sip_code=code, reason=reason)
