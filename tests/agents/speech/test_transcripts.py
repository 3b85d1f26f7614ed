"""TranscriptFeed: the transcripts of both sides for the room, and their segments."""

from __future__ import annotations

from vivavoce.agents.audio.utterance import Utterance
from vivavoce.agents.core.inbox import Inbox
from vivavoce.agents.core.log import SessionLog
from vivavoce.agents.history.voices import HeardVoices
from vivavoce.agents.speech.transcripts import TranscriptFeed
from vivavoce.agents.transports.local import LocalTransport
from vivavoce.pipelines.events import UserFinal, UserInterim
from vivavoce.pipelines.testing.virtual_time import VirtualClock, run_virtual

RATE = 24000


def feed_of(room: LocalTransport) -> TranscriptFeed:
    log = SessionLog("session", VirtualClock(), Inbox(VirtualClock()), callback_timeout=1.0)
    feed = TranscriptFeed(log, HeardVoices(), on_final=lambda who, text: None)
    feed.open(room)
    return feed


def _speaking() -> Utterance:
    utterance = Utterance("speech", RATE)
    utterance.heard.add_text("one two three four")
    utterance.heard.finish(4 * RATE)
    return utterance


def test_a_caller_who_begins_to_speak_does_not_begin_a_new_segment_of_the_agent() -> None:
    async def run() -> list[tuple[str, str, bool]]:
        room = LocalTransport(VirtualClock())
        feed, utterance = feed_of(room), _speaking()
        feed.agent_progress(utterance, 2 * RATE, is_over=False)
        feed.user(UserInterim(text="stop"), "turn")
        feed.agent_progress(utterance, 3 * RATE, is_over=True)
        return [(part.segment_id, part.who, part.is_final) for part in room.transcripts]

    (first, *_), (caller, *_), (last, _, is_final) = run_virtual(run())
    assert first == last
    assert caller != first
    assert is_final


def test_sessions_that_follow_each_other_in_a_room_share_no_segment() -> None:
    async def run() -> set[str]:
        room = LocalTransport(VirtualClock())
        for _ in range(2):
            feed = feed_of(room)
            feed.agent_progress(_speaking(), RATE * 2, is_over=False)
            feed.user(UserFinal(text="stop"), "turn")
        return {part.segment_id for part in room.transcripts}

    assert len(run_virtual(run())) == 4
