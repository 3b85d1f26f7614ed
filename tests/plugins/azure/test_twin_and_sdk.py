"""The twin holds sessions with Microsoft's own SDK, in a child process."""

from __future__ import annotations

import base64

import pytest

from kit.peer_process import run_peer
from vivavoce.plugins.azure.twin import AzureTwin, Said, TwinPace

VOICE = "en-US-AvaMultilingualNeural"


@pytest.mark.test_all("another vendor's SDK, whose twin has quick tests of its own")
@pytest.mark.e2e
@pytest.mark.timeout(120)
async def test_the_vendors_sdk_holds_sessions_with_the_twin(twin: AzureTwin) -> None:
    twin.voices, twin.pace = (VOICE,), TwinPace(first_byte=0.0, interval=0.02)
    speech = twin.speech(Said("Hello there.", speaker=1)).data + twin.speech(Said("Hola.", language="es")).data
    urls = {"host": twin.url, "stt": twin.stt_url, "tts": twin.tts_url}
    addresses = {name: "ws" + url.removeprefix("http") for name, url in urls.items()}
    seen = await run_peer("azure_sdk.py", {**addresses, "key": twin.key, "speech": base64.b64encode(speech).decode()})

    interims = ["hello", "hello there", "hello there hola"] * 2
    for name in ("stt_cloud", "stt_container", "stt_languages", "stt_speakers"):
        told = seen[name]
        assert (told["cancelled"], told["interims"]) == ("", interims)
        assert [final["DisplayText"] for final in told["finals"]] == ["Hello there. Hola."] * 2
        assert [(word["Word"], word["Offset"]) for word in told["finals"][0]["NBest"][0]["Words"]] == [
            ("hello", 0),
            ("there", 2_600_000),
            ("hola", 5_200_000),
        ]
        assert told["finals"][1]["Offset"] == 17_800_000
        assert told["finals"][0]["NBest"][0]["Confidence"] == 0.98
    assert [final["PrimaryLanguage"]["Language"] for final in seen["stt_languages"]["finals"]] == ["es-ES"] * 2
    assert seen["stt_speakers"]["finals"][0]["SpeakerId"] == "Guest-1"
    heard = [one.listening for one in twin.connections if one.listening is not None]
    assert ["Vivavoce"] in [one.key_terms for one in heard]
    assert "401" in seen["stt_refused"]["key"]

    first, second = seen["tts_text"]["first"], seen["tts_text"]["second"]
    assert [word[:3] for word in first["words"]] == [
        ["Hello", 0, 0.25],
        ["there", 2_500_000, 0.25],
        ["you", 5_000_000, 0.25],
    ]
    assert (first["size"], second["size"]) == (36_000, 24_000)
    assert second["words"] == [["Well", 0, 0.25, 0], ["then", 2_500_000, 0.25, 6]]
    streamed = seen["tts_stream"]
    assert ([word[0] for word in streamed["words"]], streamed["size"]) == (
        ["Hello", "there", "How", "are", "you"],
        60_000,
    )
    [turn] = [turn for turn in twin.turns if turn.input is not None]
    assert turn.input == {
        "bidirectionalStreamingMode": True,
        "voiceName": VOICE,
        "language": "",
        "rate": "1.2",
        "style": "cheerful",
    }
    assert seen["tts_stopped"]["stopped"]["reason"] == "ResultReason.Canceled"
    assert [word[0] for word in seen["tts_stopped"]["next"]["words"]] == ["All", "new"]
    assert "Unsupported voice en-US-NobodyNeural" in seen["tts_refused"]["cancelled"]
