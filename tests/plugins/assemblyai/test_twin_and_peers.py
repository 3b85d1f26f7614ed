"""The twin holds sessions with clients written elsewhere: the vendor's SDK and livekit's plugin, in one process."""

from __future__ import annotations

import base64
from typing import Any

import pytest

from kit.peer_process import run_peer
from vivavoce.plugins.assemblyai.twin import AssemblyAITwin, Said


def base64_of(data: bytes) -> str:
    return base64.b64encode(data).decode()


def by_class(events: list[dict[str, Any]], name: str) -> list[dict[str, Any]]:
    return [event for event in events if event["class"] == name]


def of_type(events: list[dict[str, Any]], name: str) -> list[dict[str, Any]]:
    return [event for event in events if event["type"] == name]


@pytest.mark.e2e
@pytest.mark.timeout(120)
@pytest.mark.test_all("a process of livekit-agents costs ten seconds of a processor, and tries the twin alone")
async def test_the_vendors_sdk_and_livekits_plugin_hold_sessions_with_the_twin(twin: AssemblyAITwin) -> None:
    begun = twin.speech(Said("Hello there,", speaker=1)).data
    speech = begun + twin.speech(Said("my dear friend.", language="es")).data
    job = {"url": twin.url, "key": twin.key, "speech": base64_of(speech), "begun": base64_of(begun)}
    seen = await run_peer("assemblyai_clients.py", job)

    events = seen["sdk_pro"]["events"]
    assert (events[0]["class"], events[-1]["class"]) == ("BeginEvent", "TerminationEvent")
    assert events[0]["configuration"]["model"] == "universal-3-6-pro"
    assert events[-1]["audio_duration_seconds"] == 6
    turns = by_class(events, "TurnEvent")
    ends = [turn for turn in turns if turn["end_of_turn"]]
    whole = "Hello there, my dear friend."
    assert [(turn["turn_order"], turn["transcript"]) for turn in ends] == [
        (0, f"Hello there, {whole}"),
        (1, whole),
        (2, whole),
    ]
    assert all(turn["turn_is_formatted"] for turn in ends)
    held = [turn["end_of_turn_confidence"] for turn in turns if turn["transcript"] == "Hello there,"]
    assert len(held) > 1
    assert held == sorted(held)
    assert 0 < held[0] < held[-1] < 1
    words = ends[0]["words"]
    assert [(word["text"], word["start"], word["end"]) for word in words[:2]] == [
        ("Hello", 0, 240),
        ("there,", 260, 500),
    ]
    assert [word["speaker"] for word in words] == ["B"] * 4 + ["A"] * 3
    assert (ends[1]["speaker_label"], ends[1]["language_code"]) == ("A", "es")
    assert not any(word["word_is_final"] for turn in turns if not turn["end_of_turn"] for word in turn["words"])
    assert [event["timestamp"] for event in by_class(events, "SpeechStartedEvent")][0] == 0
    [told] = twin.messages("UpdateConfiguration")
    assert told["keyterms_prompt"] == ["Grace"]

    turns = by_class(seen["sdk_universal"]["events"], "TurnEvent")
    assert [turn["transcript"] for turn in turns[:3]] == ["", "hello", "hello there"]
    assert [(turn["transcript"], turn["turn_is_formatted"]) for turn in turns if turn["end_of_turn"]] == [
        ("hello there my dear friend", False),
        (whole, True),
    ]
    assert seen["sdk_refused"] == {"key": [1008], "mode": [3006], "short": [3007]}

    events = seen["lk_pro"]["events"]
    finals = of_type(events, "final_transcript")
    assert [(final["text"], final["speaker"], final["language"]) for final in finals] == [(whole, "A", "es")] * 2
    assert [word for word, *_ in finals[0]["words"]] == whole.split()
    assert finals[1]["words"][0][1] == pytest.approx(2.8, abs=0.03)
    assert len(of_type(events, "start_of_speech")) == len(of_type(events, "end_of_speech")) == 2
    events = seen["lk_universal"]["events"]
    assert [final["text"] for final in of_type(events, "final_transcript")] == [whole] * 2
    assert of_type(events, "preflight_transcript")[0]["text"] == "hello there my dear friend"
    assert seen["lk_refused"] == {"key": 1008}
    assert any(query.get("keyterms_prompt") == ['["Ada"]'] for _, query, _ in twin.handshakes), "by livekit"
