"""The twin holds conversations with clients written elsewhere: Anthropic's SDK, livekit-agents' plugin."""

from __future__ import annotations

import pytest

from kit.peer_process import run_peer
from vivavoce.plugins.anthropic.twin import CUT, Answer, Call, Fail, Refuse, Thought, Twin

CALLS = (Call("weather", {"city": "Oslo"}), Call("weather", {"city": "Rome"}))
REFUSAL = {"type": "refusal", "category": "cyber", "explanation": "No."}


@pytest.mark.e2e
@pytest.mark.timeout(120)
async def test_the_sdk_streams_calls_tools_returns_thoughts_and_reads_errors() -> None:
    async with Twin(min_cached_tokens=10) as twin:
        twin.add(
            Answer(Thought("Two places."), "One ", "moment.", Thought(is_redacted=True), *CALLS),
            Answer("It is ", "cold.", output_tokens=7),
            Answer("All at once."),
            Answer(stop_reason="refusal", stop_details=REFUSAL),
            Refuse(429, "Slow down", headers={"retry-after": "7"}),
            Refuse(529),
            Answer("So", Fail()),
            Answer("So", CUT),
        )
        seen = await run_peer("anthropic_sdk.py", {"url": twin.url})

    called, told = seen["called"], seen["told"]
    assert "claude-haiku-5-5" in seen["models"]
    assert called["texts"] == ["One ", "moment."]
    assert [block["type"] for block in called["content"]] == [
        "thinking",
        "text",
        "redacted_thinking",
        "tool_use",
        "tool_use",
    ]
    assert [block["input"] for block in called["content"][3:]] == [{"city": "Oslo"}, {"city": "Rome"}]
    assert called["stop_reason"] == "tool_use"
    assert (told["texts"], told["stop_reason"]) == (["It is ", "cold."], "end_turn")
    assert told["usage"]["output_tokens"] == 7
    assert told["usage"]["cache_read_input_tokens"] == called["usage"]["cache_creation_input_tokens"] > 10
    assert seen["changed"]["status"] == 400, "a thought behind another question"
    assert seen["whole"]["content"] == [{"type": "text", "text": "All at once."}]
    assert (seen["refused"]["stop_reason"], seen["refused"]["stop_details"]) == ("refusal", REFUSAL)
    limited, overloaded, broken, cut = seen["failures"]
    assert limited == {"class": "RateLimitError", "status": 429, "type": "rate_limit_error", "wait": "7"}
    assert (overloaded["status"], overloaded["type"]) == (529, "overloaded_error")
    assert broken["type"] == "overloaded_error", "an error event in the middle of an answer"
    assert cut == {"class": "RemoteProtocolError"}
    assert (seen["no_result"]["status"], seen["no_result"]["type"]) == (400, "invalid_request_error")
    assert [text.partition(":")[0] for text in twin.refused] == ["messages", "messages.1"]


@pytest.mark.test_all("a second process costs ten seconds of a processor, and tries the twin alone")
@pytest.mark.e2e
@pytest.mark.timeout(120)
async def test_livekits_plugin_streams_calls_tools_and_reads_errors() -> None:
    async with Twin(min_cached_tokens=10) as twin:
        twin.add(Answer("One moment.", *CALLS), Answer("It is cold."), Refuse(529), Answer(Fail()), Answer("So", CUT))
        seen = await run_peer("livekit_anthropic.py", {"url": twin.url})

    assert twin.refused == []
    assert seen["first"]["text"] == "One moment."
    assert [call[1:] for call in seen["first"]["calls"]] == [
        ["weather", '{"city": "Oslo"}'],
        ["weather", '{"city": "Rome"}'],
    ]
    assert seen["second"]["text"] == "It is cold."
    assert seen["second"]["usage"][1] > 10, "read from the cache"
    blocks = [block for message in twin.bodies[1]["messages"] for block in message["content"]]
    results = [block["content"] for block in blocks if block["type"] == "tool_result"]
    assert results == ["cold in Oslo", "cold in Rome"]
    assert [one["error"] for one in seen["failed"]] == ["APIStatusError", "APIStatusError", "APIConnectionError"]
