"""The scripted realtime server holds a conversation with livekit-plugins-openai, in a Python of its own."""

from __future__ import annotations

import pytest

from kit.peer_process import run_peer
from vivavoce.pipelines.testing.realtime_server import (
    AskedFor,
    ScriptedAnswer,
    ScriptedCall,
    ScriptedRealtimeServer,
)


def mind(asked: AskedFor) -> ScriptedAnswer | str:
    """Call the tool, then say its output."""
    for item in asked.items:
        if item["type"] == "function_call_output":
            return f"It is {item['output']}."
    return ScriptedAnswer(text="One moment.", calls=(ScriptedCall(name="weather", arguments='{"city": "Oslo"}'),))


@pytest.mark.test_all("a process of livekit-agents costs ten seconds of a processor, and tries the test kit alone")
@pytest.mark.e2e
@pytest.mark.timeout(120)
async def test_livekit_plugins_openai_talks_calls_a_tool_and_keeps_the_same_history() -> None:
    async with ScriptedRealtimeServer(mind=mind) as server:
        server.hears("What is the weather in Oslo?")
        seen = await run_peer("livekit_realtime.py", {"url": server.url})

    assert seen["errors"] == []
    assert seen["transcripts"] == ["What is the weather in Oslo?"]
    assert seen["first"]["text"] == "One moment."
    assert seen["first"]["seconds"] == pytest.approx(0.4)
    assert [call[1:] for call in seen["first"]["calls"]] == [["weather", '{"city": "Oslo"}']]
    assert seen["second"]["text"] == "It is cold in Oslo."
    assert seen["second"]["seconds"] == pytest.approx(1.0)
    assert [count for count in seen["usage"] if count]
    assert seen["history"] == [[role, text] for role, text in server.connection.conversation.texts]
    assert seen["history"] == [
        ["user", "What is the weather in Oslo?"],
        ["assistant", "One moment."],
        ["assistant", "It is cold in Oslo."],
    ]
    assert server.asked[0].instructions == "Be brief."
    assert server.asked[0].tools[0]["name"] == "weather"
    assert server.handshakes[0] == {"model": "scripted", "authorization": "Bearer secret"}
