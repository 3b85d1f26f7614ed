"""The twin of ElevenLabs holds sessions with the vendor's SDK and livekit-plugins-elevenlabs, in their own Python."""

from __future__ import annotations

import base64

import pytest

from kit.peer_process import run_peer
from vivavoce.plugins.elevenlabs.twin import ElevenLabsTwin, Said, TwinPace

HELLO = [["Hello", 0.0, 0.25], ["there.", 0.25, 0.5], ["How", 0.5, 0.75], ["are", 0.75, 1.0], ["you?", 1.0, 1.25]]


@pytest.mark.test_all("a process of livekit-agents costs ten seconds of a processor, and tries the test kit alone")
@pytest.mark.e2e
@pytest.mark.timeout(180)
async def test_clients_written_elsewhere_hold_sessions_with_the_twin() -> None:
    pace = TwinPace(times="answer")  # livekit's plugin takes the times as they are, and adds nothing up
    async with ElevenLabsTwin(voices=("a-voice",), pace=pace) as twin:
        speech = twin.speech("Hello there.").data + twin.speech(Said("Hola.", language="es")).data
        job = {"url": twin.url, "key": twin.key, "voice": "a-voice", "speech": base64.b64encode(speech).decode()}
        seen = await run_peer("elevenlabs_clients.py", job)

    messages = seen["sdk_scribe"]["messages"]
    kinds = [message["message_type"] for message in messages]
    assert kinds == [
        "session_started",
        *["partial_transcript"] * 3,
        "committed_transcript",
        "committed_transcript_with_timestamps",
        "commit_throttled",
    ]
    assert messages[0]["config"]["keyterms"] == ["Ada"]
    assert (messages[5]["text"], messages[5]["language_code"]) == ("Hello there. Hola.", "en")
    words = [word for word in messages[5]["words"] if word["type"] == "word"]
    assert [(word["text"], word["start"], word["end"]) for word in words] == [
        ("Hello", 0.0, 0.24),
        ("there.", 0.26, 0.5),
        ("Hola.", 0.52, 0.76),
    ]
    assert seen["sdk_scribe"]["closed"]["code"] == 1008
    assert seen["sdk_vad"]["good"]["text"] == "Hello there. Hola."
    assert seen["sdk_vad"]["wrong"]["message_type"] == "auth_error"

    final = seen["lk_scribe"]["events"][-1]
    assert (final["type"], final["text"], final["confidence"]) == ("final_transcript", "Hello there. Hola.", 0.98)
    assert [word for word, _, _ in final["words"]] == ["Hello", " ", "there.", " ", "Hola."]

    spoken = seen["lk_speak"]
    assert (spoken["first"]["words"], spoken["first"]["samples"]) == (HELLO, 30_000)
    assert (spoken["second"]["samples"], spoken["after"]["samples"]) == (12_000, 18_000)
    levels = [set(spoken[name]["levels"]) for name in ("first", "second", "after")]
    assert [len(each) for each in levels] == [1, 1, 1]
    assert len(set.union(*levels)) == 3, "contexts do not mix, and nothing of a cut one comes later"
    assert all("closed unexpectedly', status_code=1008" in spoken[f"wrong {name}"] for name in ("voice", "key"))

    of_speech = [connection for connection in twin.connections if "text-to-speech" in connection.path]
    assert len(of_speech) == 3, "one for all answers, one for a wrong voice, one for a wrong key"
    assert all(context.is_closed for context in twin.contexts)
    assert twin.contexts[0].first["voice_settings"] == {"stability": 0.5, "similarity_boost": 0.75, "speed": 1.1}
