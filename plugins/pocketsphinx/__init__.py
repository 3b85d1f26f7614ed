"""pocketsphinx: speech to text offline, by a grammar.

It recognises the sentences of a JSGF grammar, word for word, and nothing else; without a grammar, general English,
badly.
Choose the voice if the speech is synthetic: espeak's `en-us+f2` at 150 words a minute is understood (80 of 80 booking
phrases in noise of -85 and -60 dB, each the first of its session), while plain `en-us` and `en` are wrong in a third.

Decisions, with measurements:

* The VAD cuts the utterances (`speech_started`, `flush`), so silence costs nothing. A pre-roll of 0.1 s loses soft
  onsets ("sunday"), 0.15 … 0.3 s does not; it must not reach into the speech before.
* The final is a second pass over the utterance with its own cepstral mean: in a session's first utterance the decoder
  has no mean yet and errs in a quarter of the phrases. It costs 10 ms of computing for each second of speech.
* No lattice rescoring (`bestpath`): worse words, up to 1.8 s late, and the confidence that it yields separates nothing,
  so that finals carry none.
* The dictionary is cut down to the grammar's words: a stream loads in 8 ms and 6 MB, not in 90 ms and 27 MB.
* Decoding holds the interpreter lock, 0.2 ms for each 20 ms frame: one thread a stream, which releases it after each
  frame. Many sessions need processes.
* Interims are provisional; act on finals, or on interims that stay unchanged.
"""

from __future__ import annotations

from vivavoce.plugins.pocketsphinx.options import STTOptions
from vivavoce.plugins.pocketsphinx.stt import FILLERS, STT

__all__ = ["FILLERS", "STT", "STTOptions"]
