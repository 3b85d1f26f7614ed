"""The twin of Cartesia speaks and listens with the vendor's SDK and livekit-plugins-cartesia, in their own Python."""

from __future__ import annotations

import base64
from typing import Any

import pytest

from kit.peer_process import run_peer
from vivavoce.plugins.cartesia.twin import CartesiaTwin

VOICE = "f786b574-daa5-4673-aa0c-cbe3e8534c02"

HELLO = [
    ["Hello", 0.0, 0.25],
    ["there.", 0.25, 0.5],
    ["How", 0.5, 0.75],
    ["are", 0.75, 1.0],
    ["you?", 1.0, 1.25],
]


@pytest.mark.test_all("a process of livekit-agents costs ten seconds of a processor, and tries the test kit alone")
@pytest.mark.e2e
@pytest.mark.timeout(180)
async def test_clients_written_elsewhere_speak_and_listen_with_the_twin() -> None:
    async with CartesiaTwin(voices=(VOICE,)) as twin:
        speech = base64.b64encode(twin.speech("Hello there.").data).decode()
        job = {"url": twin.url, "key": twin.key, "voice": VOICE, "speech": speech}
        seen = await run_peer("cartesia_clients.py", job)
    sdk, livekit = seen["sdk"], seen["livekit"]

    first, second, flushed = sdk["first"], sdk["second"], sdk["flushed"]
    assert (first["words"], first["samples"], first["kinds"]) == (HELLO, 30_000, ["timestamps", "chunk", "done"])
    assert [word for word, _, _ in second["words"]] == ["Two", "at", "once."]
    assert first["levels"] != second["levels"], "two contexts at once do not mix"
    assert len(first["levels"]) == len(second["levels"]) == 1
    assert flushed["flushes"] == [1, 2]
    assert "flush_done" in flushed["kinds"]
    assert sdk["after"]["samples"] == 18_000
    assert sdk["after"]["levels"] != sdk["cut"]["levels"]
    assert [context.is_cancelled for context in twin.contexts].count(True) == 1
    invalid = "The model is not valid, make sure it is a valid model ID."
    assert sdk["wrong model"] == [400, "model_not_found", "Invalid model", invalid]
    assert sdk["wrong voice"][0] == 404
    assert sdk["wrong language"][0] == 400
    assert sdk["wrong key"]

    assert (livekit["first"]["words"], livekit["first"]["samples"]) == (HELLO, 30_000)
    assert [word for word, _, _ in livekit["second"]["words"]] == ["And", "again."]
    assert livekit["wrong voice"][1] == "no audio frames were pushed for text: Hello there.", "it passes errors over"
    assert livekit["wrong key"][0] == 401

    assert len(twin.connections) == 3, "one of the SDK, one of livekit's plugin for two answers, one for a wrong voice"
    versions = {handshake.get("cartesia-version") or handshake["cartesia_version"] for handshake in twin.handshakes}
    assert versions == {"2026-08-14", "2025-04-16"}
    assert twin.received[0]["generation_config"] == {"speed": 1.2, "emotion": "calm"}
    assert not twin.live
    check_heard_by_sdk(seen["heard by sdk"], twin)
    check_heard_by_livekit(seen["heard by livekit"])


def check_heard_by_sdk(seen: dict[str, Any], twin: CartesiaTwin) -> None:
    whisper, ink, turns = seen["ink-whisper"], seen["ink-2"], seen["turns"]
    finals = [event for event in whisper if event.get("is_final")]
    assert [event["text"] for event in finals] == ["Hello there.", " Hello there."]
    assert [(word["word"], word["start"]) for word in finals[1]["words"]] == [("Hello", 0.52), ("there.", 0.78)]
    assert (finals[0]["duration"], finals[0]["language"]) == (0.5, "en")
    assert [event["text"] for event in whisper if event.get("is_final") is False][:2] == ["Hello", "Hello there."]
    assert "".join(event["text"] for event in ink if event.get("is_final")) == "Hello there. Hello there."
    for events in (whisper, ink):
        assert [event["type"] for event in events if event["type"] != "transcript"] == ["flush_done"] * 2 + ["done"]

    told = [(event["type"], event.get("transcript")) for event in turns if event["type"] != "turn.update"]
    assert told == [
        ("connected", None),
        ("turn.start", None),
        ("turn.eager_end", "Hello there."),
        ("turn.resume", None),
        ("turn.eager_end", "Hello there. Hello there."),
        ("turn.end", "Hello there. Hello there."),
        ("turn.start", None),
        ("turn.eager_end", " Hello there."),
        ("turn.end", " Hello there."),
        ("turn.start", None),
        ("turn.end", " Hello there."),
    ], "the second turn is ended by the timeout of the command, the third one by the close"
    assert twin.ears[2].query["keyterm"] == ["Ada", "Grace"]
    for name in ("wrong model", "no turns"):
        assert (seen[name]["status_code"], seen[name]["error_code"]) == (400, "model_not_found")


def check_heard_by_livekit(seen: dict[str, Any]) -> None:
    turns = [(event["type"], event["text"]) for event in seen["turns"] if event["type"][:5] in ("prefl", "final")]
    assert turns == [
        ("preflight_transcript", "Hello there."),
        ("preflight_transcript", "Hello there. Hello there."),
        ("final_transcript", "Hello there. Hello there."),
    ]
    finals = [event for event in seen["whisper"] if event["type"] == "final_transcript"]
    assert [event["text"] for event in finals] == ["Hello there.", " Hello there."]
    assert finals[1]["words"][0][:2] == ["Hello", pytest.approx(1.22, abs=0.001)]
    assert seen["wrong key"] == [{"status": 401}]
