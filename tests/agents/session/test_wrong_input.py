"""The heard part of one item.

Args:
    item_id: The model's id of it.
    seconds: Of its audio.
    text: Of its words.
    share: Of the audio that has come, 0 to 1.
"""

from __future__ import annotations

import logging
from typing import Any

import pytest

from vivavoce.agents import Agent, SessionOptions, function_tool
from vivavoce.agents.testing import ScriptedLLM, SessionHarness, ToolCall
from vivavoce.pipelines.core.errors import ConfigurationError


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ({"priority": "high"}, "need priority >= -1000000, a whole number, got 'high'"),
        ({"when_busy": "later"}, "need when_busy 'queue', 'discard' or 'interrupt', got 'later'"),
    ],
    ids=["priority", "when_busy"],
)
def test_a_wrong_say_or_reply_raises_at_the_call_and_the_conversation_goes_on(
    arguments: dict[str, Any], words: str
) -> None:
    async def scenario(harness: SessionHarness) -> None:
        with pytest.raises(ConfigurationError, match=words):
            await harness.session.say("One.", **arguments)
        with pytest.raises(ConfigurationError, match=words):
            await harness.session.reply("Say one.", **arguments)
        await harness.session.say("Two.")

    SessionHarness(Agent("x"), ScriptedLLM()).run(scenario).expect.next_message("Two.").no_more()


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"endpointing": "dynamic"}, r"endpointing must be EndpointingOptions\(…\), got 'dynamic'"),
        ({"interruption": "immediate"}, r"interruption must be InterruptionOptions\(…\)"),
        ({"context_window": 4000}, r"context_window must be ContextWindow\(…\) or a function"),
    ],
    ids=["endpointing", "interruption", "context_window"],
)
def test_an_option_of_another_kind_is_refused_where_it_is_given(options: dict[str, Any], words: str) -> None:
    with pytest.raises(ConfigurationError, match=words):
        SessionOptions(**options)


class Clumsy(Agent):
    @function_tool
    async def book(self) -> str:
        "Book."
        raise ValueError("friday is a secret")


def test_the_log_says_which_line_of_the_application_raised_and_not_what_it_may_quote(
    caplog: pytest.LogCaptureFixture,
) -> None:
    call = ToolCall(call_id="1", name="book", arguments="{}")
    with caplog.at_level(logging.WARNING, "vivavoce"):
        harness = SessionHarness(Clumsy("x"), ScriptedLLM([call], "Sorry."))
        harness.caller.types("book", at=1.0)
        harness.expects_error("tool").run(until=5.0)
    (message,) = [record.getMessage() for record in caplog.records if "raised" in record.getMessage()]
    assert message.startswith("Tool book raised ValueError (at ")
    assert "test_wrong_input.py:" in message
    assert "in book" in message
    assert "secret" not in message
