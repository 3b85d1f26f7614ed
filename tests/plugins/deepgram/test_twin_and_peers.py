"""The twin holds sessions with clients written elsewhere: Deepgram's SDK and livekit's plugin, in one child process."""

from __future__ import annotations

import base64
from typing import Any

import pytest

from kit.peer_process import run_peer
from vivavoce.plugins.deepgram.twin import DeepgramTwin, Said


def by_class(messages: list[dict[str, Any]], name: str) -> list[dict[str, Any]]:
    return [message for message in messages if message["class"] == name]


def settled(messages: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Return the best alternatives of the final results with words."""
    finals = [message for message in by_class(messages, "ListenV1Results") if message["is_final"]]
    return [best for message in finals if (best := message["channel"]["alternatives"][0])["words"]]


@pytest.mark.e2e
@pytest.mark.timeout(120)
async def test_the_vendors_sdk_and_livekits_plugin_hold_sessions_with_the_twin(twin: DeepgramTwin) -> None:
    speech = twin.speech(Said("Hello there.", speaker=1)).data + twin.speech(Said("Hola.", language="es")).data
    seen = await run_peer(
        "deepgram_clients.py", {"url": twin.url, "key": twin.key, "speech": base64.b64encode(speech).decode()}
    )

    messages = seen["sdk_nova"]["messages"]
    assert [best["transcript"] for best in settled(messages)] == ["Hello there. Hola."] * 2
    first = settled(messages)[0]
    assert first["languages"] == ["en", "es"]
    assert [word["word"] for word in first["words"]] == ["hello", "there", "hola"]
    assert [word["punctuated_word"] for word in first["words"]] == ["Hello", "there.", "Hola."]
    assert [word["speaker"] for word in first["words"]] == [1, 1, 0]
    assert [word["language"] for word in first["words"]] == ["en", "en", "es"]
    assert [(word["start"], word["end"]) for word in first["words"]] == [(0, 0.24), (0.26, 0.5), (0.52, 0.76)]
    interims = [one for one in by_class(messages, "ListenV1Results") if not one["is_final"]]
    texts = [one["channel"]["alternatives"][0]["transcript"] for one in interims]
    assert texts == ["Hello", "Hello there.", "Hello there. Hola."] * 2
    assert [one["from_finalize"] for one in by_class(messages, "ListenV1Results") if one["speech_final"]] == [0, 1]
    assert len(by_class(messages, "ListenV1SpeechStarted")) == 2
    assert [one["last_word_end"] for one in by_class(messages, "ListenV1UtteranceEnd")] == [0.76]
    assert by_class(messages, "ListenV1ConfigureSuccess")[0]["keyterms"] == ["Grace"]
    assert messages[-1]["class"] == "ListenV1Metadata"
    assert seen["sdk_refused"] == {"key": 401, "model": 400}

    messages = seen["sdk_flux"]["messages"]
    assert messages[0]["class"] == "ListenV2Connected"
    assert [message["sequence_id"] for message in messages] == list(range(len(messages)))
    turns = by_class(messages, "ListenV2TurnInfo")
    assert [turn["event"] for turn in turns if turn["event"] != "Update"] == [
        "StartOfTurn",
        "EagerEndOfTurn",
        "TurnResumed",
        "EagerEndOfTurn",
        "EndOfTurn",
        "StartOfTurn",
        "EndOfTurn",
    ]
    ends = [turn for turn in turns if turn["event"] == "EndOfTurn"]
    assert [(turn["transcript"], turn["turn_index"], turn["trigger"]) for turn in ends] == [
        ("Hello there. Hola. Hello there. Hola.", 0, "model"),
        ("Hello there. Hola.", 1, "manual"),
    ]
    assert [(word["word"], word["start"]) for word in ends[0]["words"][:2]] == [("Hello", 0.0), ("there.", 0.26)]
    assert ends[0]["languages"] == ["en", "es"]
    configured = by_class(messages, "ListenV2ConfigureSuccess")[0]
    assert (configured["thresholds"]["eot_threshold"], configured["keyterms"]) == (1.0, ["Grace"])

    events = seen["lk_flux"]["events"]
    assert [(event["type"], event["text"]) for event in events if event["type"][:5] in ("prefl", "final")] == [
        ("preflight_transcript", "Hello there. Hola."),
        ("preflight_transcript", "Hello there. Hola. Hello there. Hola."),
        ("final_transcript", "Hello there. Hola. Hello there. Hola."),
    ]

    events = seen["lk_nova"]["events"]
    finals = [event for event in events if event["type"] == "final_transcript"]
    assert [final["text"] for final in finals] == ["Hello there. Hola."] * 2
    assert finals[0]["speaker"] == "S1"
    assert [word for word, *_ in finals[0]["words"]] == ["Hello", "there.", "Hola."]
    assert finals[1]["words"][0][1] == pytest.approx(2.78, abs=0.01)
    assert [event["type"] for event in events].count("end_of_speech") == 2
    assert seen["lk_refused"] == {"key": 401}

    assert seen["sdk_speak"]["size"] == 2 * round(0.52 * 24_000)
    status, body = seen["sdk_speak"]["refused"]
    assert (status, body["err_code"]) == (400, "Bad Request")
    assert seen["lk_speak"]["seconds"] == pytest.approx(0.52, abs=0.02)

    check_spoken_turns(seen["sdk_turns"])
    assert seen["lk_turns"]["seconds"] == [pytest.approx(0.52, abs=0.02)] * 2


def check_spoken_turns(turns: dict[str, Any]) -> None:
    assert turns["size"] == 2 * round(7 * 0.26 * 24_000)
    assert [message["class"] for message in turns["messages"]] == [
        "SpeakV2Connected",
        *("SpeakV2SpeechStarted", "SpeakV2SpeechMetadata", "SpeakV2Flushed") * 2,
        "SpeakV2SpeechInterrupted",
        "SpeakV2Warning",
    ]
    metadata, interrupted, warning = (turns["messages"][at] for at in (2, -2, -1))
    assert metadata["audio_duration_ms"] == 520
    told = {name: interrupted[name] for name in ("audio_played_ms", "text_spoken", "text_remaining")}
    assert told == {"audio_played_ms": 1200, "text_spoken": "One two", "text_remaining": "three four five."}
    assert warning["code"] == "INVALID_INTERRUPT_OFFSET"
    assert turns["refused"] == 400
