"""faster_whisper: Whisper on this machine, utterance by utterance, from a model folder that you have.

    pip install 'vivavoce[faster-whisper]'
    CascadingPipeline(stt=faster_whisper.STT("/models/whisper-base.en-ct2", language="en"), vad=silero.VAD(), …)

The folder is one of CTranslate2's: `model.bin`, `config.json`, `tokenizer.json` and the vocabulary. Nothing is ever
downloaded.

Decisions, with measurements (Whisper tiny.en, int8, one thread of a small server):

* Finals only: Whisper computes 30 s of audio whatever the length of the utterance, 0.6 s for the tiny model, so that
  interims would take a whole core. Where they matter, take moonshine or a vendor's recogniser.
* One model a folder and process, with one thread of CTranslate2; a session's utterance waits for the one before.
* Words that Whisper hears in silence are dropped by its own judgement (`max_no_speech`).
"""

from __future__ import annotations

from vivavoce.plugins.faster_whisper.options import STTOptions
from vivavoce.plugins.faster_whisper.stt import STT

__all__ = ["STT", "STTOptions"]
