"""Every scenario runs on both pipelines, except those in a table of exceptions with reasons.

`make test-all` runs them traced (`VIVAVOCE_TRACED_SCENARIOS=1`): the call must not differ, and its spans must add up.
Other runs are without tracing, as most sessions are.

The number of a scenario, in file names and docstrings, groups the tests of one topic.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from typing import Any

import pytest

from kit.each_pipeline import harness_on
from kit.realtime import realtime_of, text_realtime_of
from kit.telemetry import Watching
from vivavoce.agents import AgentSession

WAYS = ["traced"] if os.environ.get("VIVAVOCE_TRACED_SCENARIOS") == "1" else ["plain"]


@pytest.fixture(autouse=True, params=WAYS)
def watched(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Trace the sessions of the test, and check their spans when it is over."""
    if request.param == "plain":
        yield
        return
    watching = Watching()
    sessions: list[AgentSession[Any]] = []
    make_as_ever = AgentSession.__init__

    def make_and_note(session: AgentSession[Any], *args: Any, **options: Any) -> None:
        make_as_ever(session, *args, **options)
        sessions.append(session)

    monkeypatch.setattr(AgentSession, "__init__", make_and_note)
    with watching.everywhere():
        yield
    watching.check()
    for session in sessions:
        watching.check_turns(session.report())


VOICE = "the voice is the model's own: its failures are the model's, and its calls come behind its words"
"""Differences of a model that speaks; the scenario holds on a model that answers with text for a separate voice."""
AHEAD = "a remote conversation keeps what it was asked, so that no answer is begun ahead"
"""Differences of every realtime model."""
ITS_PARTS = "it is about parts or options that it gives a cascade, and holds for what takes the same"
"""No differences."""
DIFFERENT: dict[str, str] = {
    "test_a_pause_within_an_incomplete_turn_keeps_it_one_turn_with_both_parts": ITS_PARTS,
    "test_an_incomplete_turn_that_stays_so_ends_after_the_longest_delay": ITS_PARTS,
    "test_a_model_whose_server_ends_turns_cannot_wait_for_a_button": ITS_PARTS,
    "test_in_a_flow_it_acts_when_the_words_yielded_before_it_have_been_heard": ITS_PARTS,
    "test_awaited_in_a_flow_that_has_spoken_it_raises_instead_of_waiting_for_ever": ITS_PARTS,
    "test_a_filter_that_raises_is_an_error_event_and_the_answer_is_spoken": ITS_PARTS,
    "test_30_fallback": ITS_PARTS,
    "test_slow_answers_change_the_model_and_five_quick_ones_need_no_second_change": ITS_PARTS,
    "test_tokens_of_an_answer_that_was_begun_ahead_and_thrown_away_count": AHEAD,
    "test_31_content_guard": ITS_PARTS,
    "test_31_guard_of_the_caller": ITS_PARTS,
    "test_records_hold_no_content_unless_asked_to": VOICE,
    "test_09_finished_sentences": VOICE,
    "test_14_unvoiced": VOICE,
    "test_14_unvoiced_model": ITS_PARTS,
    "test_a_voice_that_must_not_be_tried_again_is_asked_once": ITS_PARTS,
    "test_a_sentence_without_a_voice_is_judged_by_what_the_filters_leave": ITS_PARTS,
    "test_an_answer_begun_ahead_with_its_voice_tells_its_unvoiced_sentence_once_it_is_taken": AHEAD,
    "test_an_eager_end_asks_the_model_at_once_and_the_end_takes_its_answer": AHEAD,
    "test_resumed_cancels_the_model_at_once_and_the_answer_leaves_no_trace": AHEAD,
    "test_the_answer_of_an_eager_end_is_begun_on_the_words_that_the_hook_gives": AHEAD,
    "test_17_preemptive": AHEAD,
    "test_17_preemptive_voice": AHEAD,
    "test_a_model_that_raises_in_mid_sentence_keeps_what_was_heard": VOICE,
    "test_a_model_that_raises_after_its_last_token_fails_its_turn": VOICE,
    "test_a_voice_that_raises_fails_the_turn_and_the_next_one_works": VOICE,
    "test_a_model_that_hangs_fails_at_its_limit": VOICE,
    "test_a_voice_whose_code_is_wrong_fails_one_turn_and_the_next_one_works": VOICE,
    "test_a_voice_that_hangs_fails_at_its_limit": VOICE,
    "test_a_voice_that_gives_no_audio_of_words_fails_the_turn": VOICE,
    "test_a_voice_that_fails_while_the_model_still_writes_is_blamed_and_not_the_model": VOICE,
    "test_a_voice_that_hangs_after_it_had_to_wait_for_room_fails_at_its_limit": VOICE,
    "test_what_a_tool_came_to_whose_voice_failed_is_answered_late": VOICE,
    "test_without_a_voice_or_a_text_there_is_no_apology": VOICE,
    "test_a_tool_after_spoken_words_plays_them_first": VOICE,
    "test_an_answer_of_an_emoji_is_an_empty_one": VOICE,
    "test_a_sentence_that_was_played_is_heard_to_its_end_though_the_model_stalls": VOICE,
    "test_cut_words_stand_before_their_calls_and_the_next_answer_has_the_result": VOICE,
    "test_a_result_that_no_model_was_sent_before_the_cut_is_answered_once": VOICE,
    "test_a_cut_speech_is_not_answered_late_when_the_session_closes": VOICE,
    "test_a_late_answer_waits_until_the_user_is_silent": VOICE,
    "test_a_speech_that_takes_the_floor_answers_for_the_one_it_cut": VOICE,
    "test_a_handoff_happens_though_the_speech_that_asked_for_it_is_cut": VOICE,
    "test_a_model_answer_is_kept_as_it_is_written_and_said_without_marks": VOICE,
    "test_the_stages_of_a_turn_add_up_to_the_silence_that_the_caller_felt": VOICE,
    "test_the_stages_of_a_turn_with_tools_add_up_too": VOICE,
    "test_the_stages_of_a_turn_with_a_tool_sum_and_are_the_scripted_times": VOICE,
    "test_retries_and_usage_are_counted_in_the_turn_that_caused_them": VOICE,
}
"""Module or test -> why it does not hold unchanged."""

MAKES = {"realtime": realtime_of, "realtime, text": text_realtime_of}


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    module = metafunc.module.__name__.rpartition(".")[2]
    reason = DIFFERENT.get(metafunc.function.__name__) or DIFFERENT.get(module, "")
    others = {"": ["realtime"], VOICE: ["realtime, text"], AHEAD: [], ITS_PARTS: []}[reason]
    metafunc.parametrize("on_pipeline", ["cascading", *others], indirect=True)


@pytest.fixture(autouse=True)
def on_pipeline(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    make = MAKES.get(request.param)
    if make is None:
        yield
        return
    with harness_on(make, monkeypatch):
        yield
