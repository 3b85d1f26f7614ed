"""ParticipantLink: whom of a room the session talks to, step by step, without a room."""

from __future__ import annotations

from dataclasses import dataclass

import pytest
from livekit import rtc

from vivavoce.agents.transports.livekit.link import ParticipantLink, kind_name, reason_name
from vivavoce.agents.transports.options import RoomOptions

Kind = rtc.ParticipantKind


@dataclass(eq=False)
class Somebody:
    """A participant; a new object is a new visit, as in the SDK."""

    identity: str
    kind: rtc.ParticipantKind.ValueType = Kind.PARTICIPANT_KIND_STANDARD


def look(link: ParticipantLink, *present: Somebody, now: float = 0.0, reachable: bool = True) -> list[str]:
    changes = link.update({each.identity: each for each in present}, now=now, is_reachable=lambda _: reachable)
    return [f"{change.what} {change.identity}" for change in changes]


def test_first_of_an_accepted_kind_is_linked_and_kept() -> None:
    link = ParticipantLink(None, RoomOptions())
    bot, anna = Somebody("bot", Kind.PARTICIPANT_KIND_AGENT), Somebody("anna")
    assert look(link) == []
    assert look(link, bot, anna, Somebody("bert")) == ["linked anna"]
    assert look(link, Somebody("zoe"), anna) == []
    assert (link.identity, link.is_present) == ("anna", True)


def test_own_choice_of_kinds_counts() -> None:
    link = ParticipantLink(None, RoomOptions(participant_kinds=frozenset({"sip"})))
    assert look(link, Somebody("anna"), Somebody("phone", Kind.PARTICIPANT_KIND_SIP)) == ["linked phone"]


def test_identity_asked_for_is_waited_for_and_may_be_of_any_kind() -> None:
    link = ParticipantLink("bot", RoomOptions())
    assert look(link, Somebody("anna")) == []
    assert look(link, Somebody("anna"), Somebody("bot", Kind.PARTICIPANT_KIND_AGENT)) == ["linked bot"]


def test_one_that_left_is_linked_again_and_nobody_else() -> None:
    link = ParticipantLink(None, RoomOptions(participant_grace=5.0))
    bert = Somebody("bert")
    assert look(link, Somebody("anna"), bert) == ["linked anna"]
    assert look(link, bert, now=1.0) == ["left anna"]
    assert not link.is_present
    assert look(link, bert, now=99.0) == []
    assert look(link, bert, Somebody("anna"), now=100.0) == ["linked anna"]


def test_nobody_is_gone_while_the_agent_itself_is_out_of_the_room() -> None:
    link = ParticipantLink(None, RoomOptions(participant_grace=5.0, close_on_disconnect=False))
    assert look(link, Somebody("anna")) == ["linked anna"]
    link.suspend()
    assert look(link, now=1.0) == []
    assert link.deadline(now=1.0) is None
    assert link.is_present
    link.resume()
    assert look(link, Somebody("bert"), now=60.0) == ["left anna"]
    assert link.deadline(now=60.0) == 65.0  # the grace time begins once the room can be seen
    assert look(link, Somebody("anna"), now=61.0) == ["linked anna"]


def test_a_grace_time_does_not_end_while_the_agent_itself_is_out_of_the_room() -> None:
    link = ParticipantLink(None, RoomOptions(participant_grace=5.0, close_on_disconnect=False))
    look(link, Somebody("anna"))
    assert look(link, now=1.0) == ["left anna"]
    link.suspend()
    assert link.deadline(now=2.0) is None
    assert look(link, Somebody("bert"), now=99.0) == []


def test_leaving_and_returning_between_two_looks_is_told_as_both() -> None:
    link = ParticipantLink(None, RoomOptions())
    look(link, Somebody("anna"))
    assert look(link, Somebody("anna")) == ["left anna", "linked anna"]


def test_session_that_stays_open_takes_the_next_one_after_the_grace_time() -> None:
    link = ParticipantLink(None, RoomOptions(participant_grace=5.0, close_on_disconnect=False))
    bert = Somebody("bert")
    look(link, Somebody("anna"), bert)
    assert link.deadline(now=0.0) is None
    assert look(link, bert, now=1.0) == ["left anna"]
    assert link.deadline(now=1.0) == 6.0
    assert look(link, bert, now=5.9) == []
    assert look(link, bert, now=6.0) == ["linked bert"]
    assert link.deadline(now=6.0) is None


def test_grace_time_that_is_over_with_nobody_there_is_waited_for_no_more() -> None:
    link = ParticipantLink(None, RoomOptions(participant_grace=5.0, close_on_disconnect=False))
    look(link, Somebody("anna"))
    assert look(link, now=1.0) == ["left anna"]
    assert look(link, now=6.0) == []
    assert link.deadline(now=6.0) is None
    assert look(link, Somebody("bert"), now=7.0) == ["linked bert"]


def test_one_that_returns_is_linked_once_it_can_hear() -> None:
    link, back = ParticipantLink(None, RoomOptions()), Somebody("anna")
    assert look(link, Somebody("anna"), reachable=False) == ["linked anna"]
    assert look(link, now=1.0) == ["left anna"]
    assert look(link, back, now=2.0, reachable=False) == []
    assert not link.is_present
    assert look(link, back, now=3.0) == ["linked anna"]


def test_identity_asked_for_is_never_replaced() -> None:
    link = ParticipantLink("anna", RoomOptions(participant_grace=5.0, close_on_disconnect=False))
    look(link, Somebody("anna"))
    assert look(link, Somebody("bert"), now=1.0) == ["left anna"]
    assert link.deadline(now=1.0) is None
    assert look(link, Somebody("bert"), now=99.0) == []


@pytest.mark.parametrize(("kind", "name"), [(Kind.PARTICIPANT_KIND_CONNECTOR, "connector"), (99, "kind_99")])
def test_kinds_have_the_options_names(kind: rtc.ParticipantKind.ValueType, name: str) -> None:
    assert kind_name(kind) == name


def test_reason_of_an_end_is_named_even_one_of_a_newer_server() -> None:
    assert reason_name(rtc.DisconnectReason.DUPLICATE_IDENTITY) == "duplicate_identity"
    assert reason_name(99) == "reason_99"  # type: ignore[arg-type]  # what a newer server may send


def test_one_that_has_hung_up_is_not_waited_for() -> None:
    link = ParticipantLink(None, RoomOptions(participant_grace=5.0, close_on_disconnect=False))
    phone = Somebody("phone", Kind.PARTICIPANT_KIND_SIP)
    assert look(link, phone) == ["linked phone"]
    changes = link.update({}, now=1.0, is_reachable=lambda _: True, comes_back=lambda one: one is not phone)
    assert [(change.what, change.comes_back) for change in changes] == [("left", False)]
    assert look(link, Somebody("anna"), now=1.0) == ["linked anna"]


def test_one_that_left_without_hanging_up_is_waited_for_again() -> None:
    link = ParticipantLink(None, RoomOptions(participant_grace=5.0, close_on_disconnect=False))
    look(link, Somebody("phone"))
    link.update({}, now=1.0, is_reachable=lambda _: True, comes_back=lambda _: False)
    assert look(link, Somebody("anna"), now=1.0) == ["linked anna"]
    assert look(link, now=2.0) == ["left anna"]
    assert look(link, Somebody("bert"), now=6.9) == []
    assert look(link, Somebody("bert"), now=7.0) == ["linked bert"]
