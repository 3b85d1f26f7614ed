"""moonshine: speech to text offline, any English sentence, by Moonshine tiny (MIT) on onnxruntime.

    pip install 'vivavoce[moonshine]'
    CascadingPipeline(stt=moonshine.STT(), vad=silero.VAD(), …)

The weights are files of the wheel moonshine-voice 0.1.0: later versions download theirs.

Decisions, with measurements (docs/local.md has them beside the other offline parts):

* The networks run on onnxruntime, with one thread, and not in the wheel's own library: that starts a thread for each
  further core and network, which wait by spinning, and takes three times the CPU. It is never loaded, and neither are
  the wheel's requirements (PortAudio, requests).
* One set of weights for all sessions of a process, in one thread: finals come first, and interims only while nothing
  waits for the thread. So a busy process shows fewer interims, and answers at the same time.
* The VAD cuts the utterances, so silence costs nothing; speech without a pause is cut where it is quietest.
* The network hears "You" in silence and noise. It is then unsure of it (0.3 … 0.4 on average for its pieces of words;
  speech has 0.6 … 1.0): such words are dropped (`min_confidence`).
* No word times: the wheel has no network for them.
"""

from __future__ import annotations

from vivavoce.plugins.moonshine.options import STTOptions
from vivavoce.plugins.moonshine.stt import STT

__all__ = ["STT", "STTOptions"]
