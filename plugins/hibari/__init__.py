"""hibari: text to speech offline, in English, by a small neural voice (Apache-2.0) on onnxruntime.

    pip install 'vivavoce[hibari]'
    CascadingPipeline(tts=hibari.TTS(), …)

The weights of the voice "heart" (American English) are in the wheel hibari-tts 0.2.1.

Decisions, with measurements (docs/local.md has them beside the other offline parts):

* A sentence is computed at once, in one thread, off the event loop: some 10 ms for a word, 40 ms for 4 s of speech on a
  quiet core. Its first call takes a second (dictionaries, spelling network): `load()` or `warm()` makes it before the
  call. One set of weights for all sessions of a process.
* Word times are the voice's own: the durations of the phonemes are a tensor inside its graph. A name appended to the
  file's bytes makes it an output. Where onnxruntime does not yield it, the log says so, and times are estimated from
  the number of phonemes.
* Of the package, the parts are used that turn text into phonemes and spectra into sound; the network runs with the
  bounded threads of this process.
"""

from __future__ import annotations

from vivavoce.plugins.hibari.tts import TTS

__all__ = ["TTS"]
