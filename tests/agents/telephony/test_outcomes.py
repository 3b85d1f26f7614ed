"""What the server's answers and errors say of a call; livekit-server 1.13.5 with livekit-sip 1.9.0, as measured."""

from __future__ import annotations

import pytest
from livekit.api import SipCallError, TwirpError
from livekit.protocol.sip import SIPStatusCode, SIPTransferStatus, TransferSIPParticipantResponse

from vivavoce.agents.telephony.numbers import checked_number, checked_target
from vivavoce.agents.telephony.outcome import CallOutcome, refused, transferred
from vivavoce.pipelines.core.errors import ConfigurationError


def sip_error(code: int, words: str) -> TwirpError:
    return SipCallError(
        "any", "INVITE failed", status=400, metadata={"sip_status_code": str(code), "sip_status": words}
    )


@pytest.mark.parametrize(
    ("code", "status"),
    [(486, "busy"), (600, "busy"), (480, "no_answer"), (603, "declined"), (404, "no_route"), (503, "failed")],
)
def test_a_refusal_is_read_by_its_sip_code(code: int, status: str) -> None:
    outcome = refused(sip_error(code, "Words"), "sip_1", has_rung=True)
    assert (outcome.status, outcome.sip_code, outcome.reason) == (status, code, "Words")


@pytest.mark.parametrize(("has_rung", "status"), [(True, "no_answer"), (False, "no_route")])
def test_only_the_ringing_tells_a_call_that_nobody_took_from_an_address_with_nothing(
    has_rung: bool, status: str
) -> None:
    error = TwirpError("canceled", "sip request timed out", status=408)
    assert refused(error, "sip_1", has_rung=has_rung).status == status


@pytest.mark.parametrize(
    ("code", "status", "message"),
    [
        ("internal", 500, "sip not connected (redis required)"),
        ("unavailable", 503, "no response from servers"),
        ("invalid_argument", 400, "no SIP session associated with participant"),
    ],
)
def test_a_server_without_its_sip_service_is_a_failure_in_its_own_words(code: str, status: int, message: str) -> None:
    outcome = refused(TwirpError(code, message, status=status), "sip_1", has_rung=False)
    assert outcome == CallOutcome(status="failed", identity="sip_1", reason=f"{code}: {message}")


def test_an_empty_answer_to_a_transfer_is_success() -> None:
    assert transferred(TransferSIPParticipantResponse.FromString(b""), "sip_1").is_answered


def test_an_answer_with_an_id_is_read_by_its_status() -> None:
    done = TransferSIPParticipantResponse(transfer_id="T", status=SIPTransferStatus.STS_TRANSFER_SUCCESSFUL)
    lost = TransferSIPParticipantResponse(transfer_id="T", status=SIPTransferStatus.STS_TRANSFER_FAILED)
    busy = TransferSIPParticipantResponse(transfer_id="T", status=SIPTransferStatus.STS_TRANSFER_FAILED)
    busy.sip_status.code = SIPStatusCode.SIP_STATUS_BUSY_HERE
    assert [transferred(one, "sip_1").status for one in (done, lost, busy)] == ["answered", "failed", "busy"]


@pytest.mark.parametrize("number", ["+15550100", "+1 (555) 01-00", "112", "0800/123456"])
def test_a_number_may_be_written_as_people_do(number: str) -> None:
    assert checked_number("number", number).lstrip("+").isdecimal()


@pytest.mark.parametrize("number", ["", "+", "1", "call me", "12x4", "sip:bob@example.com", "+" + "1" * 40, "١٢٣"])
def test_a_number_that_is_none_is_refused(number: str) -> None:
    with pytest.raises(ConfigurationError, match="must be a telephone number such as"):
        checked_number("number", number)


def test_a_transfer_goes_to_a_number_or_a_sip_address() -> None:
    assert checked_target("to", "+1 555 0123") == "tel:+15550123"
    assert checked_target("to", "sip:desk@example.com") == "sip:desk@example.com"
    for wrong in ("", "desk", "sip:", "sip:a b@c", "http://example.com"):
        with pytest.raises(ConfigurationError, match="or an address such as"):
            checked_target("to", wrong)
