"""The twin holds conversations with clients written elsewhere: Google's SDK, livekit-agents' plugin."""

from __future__ import annotations

import pytest

from kit.peer_process import run_peer
from vivavoce.plugins.google.twin import CUT, Answer, Call, Refuse, Thought, Twin

pytestmark = [
    pytest.mark.test_all("a second process costs ten seconds of a processor, and tries the twin alone"),
    pytest.mark.e2e,
    pytest.mark.timeout(120),
]

CALLS = (Call("weather", {"city": "Oslo"}), Call("weather", {"city": "Rome"}))


async def test_the_sdk_streams_calls_tools_returns_signatures_and_reads_errors() -> None:
    async with Twin(min_cached_tokens=10, models=["gemini-3.8-flash"]) as twin:
        twin.add(
            Answer(Thought("Two places."), "One ", "moment.", *CALLS, thought_tokens=9),
            Answer("It is ", "cold.", output_tokens=7),
            Answer("Cold."),
            Answer("All at once."),
            Answer("So", finish_reason="SAFETY"),
            Answer(block_reason="PROHIBITED_CONTENT"),
            Refuse(code=429, retry_delay="7s"),
            Refuse(code=503),
            Answer("So", Refuse(code=500, message="no")),
            Answer("So", CUT),
            Answer("From the cloud."),
        )
        seen = await run_peer("google_sdk.py", {"url": twin.url})

    called, told = seen["called"], seen["told"]
    assert seen["models"] == ["models/gemini-3.8-flash"]
    assert (called["thoughts"], called["texts"]) == (["Two places."], ["One ", "moment."])
    assert called["calls"] == [["weather", {"city": "Oslo"}, None], ["weather", {"city": "Rome"}, None]]
    assert (called["reason"], called["usage"][1], called["usage"][3]) == ("STOP", None, 9)
    assert told["texts"] == ["It is ", "cold."]
    assert told["usage"][1:3] == [called["usage"][0], 7], "the first request is read from the cache"
    assert seen["unsigned"]["status"] == "INVALID_ARGUMENT"
    assert "missing a thought_signature" in seen["unsigned"]["text"]
    assert seen["dummy"]["texts"] == ["Cold."]
    assert seen["whole"] == "All at once."
    withheld, blocked = seen["withheld"]
    assert (withheld["texts"], withheld["reason"]) == (["So"], "SAFETY")
    assert (blocked["texts"], blocked["block"]) == ([], "PROHIBITED_CONTENT")
    limited, overloaded, broken, cut = seen["failures"]
    assert (limited["code"], limited["status"]) == (429, "RESOURCE_EXHAUSTED")
    assert (overloaded["code"], overloaded["status"]) == (503, "UNAVAILABLE")
    assert (broken["code"], broken["text"]) == (500, "no"), "an error in the middle of an answer"
    assert cut == {"class": "ClientPayloadError"}
    assert (seen["no_model"]["code"], seen["no_model"]["status"]) == (404, "NOT_FOUND")
    assert seen["cloud"]["texts"] == ["From the cloud."]
    cloud = twin.requests[-1]
    assert cloud.place == "projects/a-project/locations/europe-west4/publishers/google/"
    assert cloud.headers["authorization"] == "Bearer a-token"
    assert [text.partition(" ")[0] for text in twin.refused] == ["Function", "models/gemini-7"]


async def test_livekits_plugin_streams_calls_tools_and_reads_errors() -> None:
    async with Twin(min_cached_tokens=10) as twin:
        twin.add(
            Answer("One moment.", *CALLS),
            Answer("It is cold."),
            Refuse(code=503),
            Answer(Refuse(code=500)),
            Answer("So", CUT),
        )
        seen = await run_peer("livekit_google.py", {"url": twin.url})

    assert twin.refused == []
    assert seen["first"]["text"] == "One moment."
    assert [call[1:] for call in seen["first"]["calls"]] == [
        ["weather", '{"city": "Oslo"}'],
        ["weather", '{"city": "Rome"}'],
    ]
    assert seen["second"]["text"] == "It is cold."
    assert seen["second"]["usage"][1] > 10, "read from the cache"
    parts = [part for content in twin.bodies[1]["contents"] for part in content["parts"]]
    results = [part["functionResponse"]["response"] for part in parts if "functionResponse" in part]
    assert results == [{"output": "cold in Oslo"}, {"output": "cold in Rome"}]
    assert ["thoughtSignature" in part for part in parts if "functionCall" in part] == [True, False]
    assert [one["error"] for one in seen["failed"]] == [
        "APIStatusError 503 True",
        "APIStatusError 500 True",
        "APIConnectionError  False",
    ]
