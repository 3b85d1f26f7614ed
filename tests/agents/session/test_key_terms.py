"""SessionOptions.key_terms: rare words reach every recogniser of the session that takes them."""

from __future__ import annotations

import logging
from typing import Any

import pytest

from vivavoce.agents import Agent, AgentOverrides, SessionOptions
from vivavoce.agents.testing import SessionHarness
from vivavoce.pipelines.core.errors import ConfigurationError
from vivavoce.pipelines.stt.base import STTCapabilities
from vivavoce.pipelines.testing import ScriptedLLM, ScriptedRealtimeModel, ScriptedSTT

TERMS = ("Vivavoce", "Dr. Öztürk")
TAKES = STTCapabilities(takes_key_terms=True)


def warnings(caplog: pytest.LogCaptureFixture) -> list[str]:
    return [record.message for record in caplog.records if "key terms" in record.message]


def test_key_terms_reach_each_stream_of_a_recogniser(caplog: pytest.LogCaptureFixture) -> None:
    stt, other = ScriptedSTT(capabilities=TAKES), ScriptedSTT(capabilities=TAKES)
    harness = SessionHarness(Agent("Help."), stt=stt, options=SessionOptions(key_terms=list(TERMS)))

    async def scenario(harness: SessionHarness) -> None:
        stt.fail()
        await harness.until(1.0)
        await harness.session.update_components(stt=other)

    harness.run(scenario, until=3.0)
    assert [stream.key_terms for stream in (*stt.streams, *other.streams)] == [TERMS, TERMS, TERMS]
    assert warnings(caplog) == []


def test_a_session_without_key_terms_opens_its_recogniser_plainly(caplog: pytest.LogCaptureFixture) -> None:
    harness = SessionHarness(Agent("Help."), stt=ScriptedSTT(capabilities=TAKES)).run(until=1.0)
    assert [stream.key_terms for stream in harness.stt.streams] == [()]
    assert warnings(caplog) == []


def test_a_recogniser_that_takes_none_works_and_the_log_says_so(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.WARNING):
        harness = SessionHarness(Agent("Help."), ScriptedLLM("Hi."), options=SessionOptions(key_terms=TERMS))
        harness.caller.says("hello", 0.5, 1.5)
        harness.run(until=4.0)
    assert len(harness.stt.streams) == 1
    assert warnings(caplog) == [
        "scripted takes no key terms: it hears without SessionOptions.key_terms; choose a recogniser with the "
        "capability 'takes_key_terms', or leave them out"
    ]


def test_a_realtime_model_that_makes_the_transcripts_takes_none_and_the_log_says_so(
    caplog: pytest.LogCaptureFixture,
) -> None:
    with caplog.at_level(logging.WARNING):
        options = SessionOptions(key_terms=TERMS)
        SessionHarness(Agent("Help."), model=ScriptedRealtimeModel(), options=options).run(until=1.0)
    assert [text.partition(":")[0] for text in warnings(caplog)] == [
        "the pipeline, which has no stt, takes no key terms"
    ]


def test_the_recogniser_of_an_agent_gets_the_key_terms_too() -> None:
    stt = ScriptedSTT(capabilities=TAKES)
    agent = Agent("Help.", overrides=AgentOverrides(stt=stt))
    SessionHarness(agent, options=SessionOptions(key_terms=TERMS)).run(until=1.0)
    assert [stream.key_terms for stream in stt.streams] == [TERMS]


@pytest.mark.parametrize(
    ("given", "problem"),
    [
        ("Vivavoce", "need key_terms as a list of str, got 'Vivavoce'; give a list"),
        ([1], "need key_terms as a list of str, got 1 among them"),
        (["Vivavoce", " "], r"key_terms need words, got \('Vivavoce', ' '\); leave empty ones out"),
    ],
)
def test_wrong_key_terms_are_refused(given: Any, problem: str) -> None:
    with pytest.raises(ConfigurationError, match=problem):
        SessionOptions(key_terms=given)
