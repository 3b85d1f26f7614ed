"""Smart Turn v3: judges by the sound whether a turn is over, with a small neural network on onnxruntime.

The weights are not part of vivavoce. A command gets them, by pip, out of the wheel in which their makers publish them
(BSD 2-clause, 9 MB):

    pip install 'vivavoce[smart-turn]'
    vivavoce models get smart_turn

From then on a CascadingPipeline with an stt and a vad, and without a turn detector, has this one; the log says so. One
of your own settings, or with another file of pipecat-ai/smart-turn-v3:

    CascadingPipeline(..., turn_detector=smart_turn.TurnDetector(threshold=0.6))
    CascadingPipeline(..., turn_detector=smart_turn.TurnDetector("/models/smart-turn-v3.2-cpu.onnx"))

The public facts about the network, from its README and the code around it: the input `input_features` of shape
(batch, 80, 800) is the log-mel spectrogram of 8 s of 16 kHz audio as Whisper's feature extractor computes it with
`chunk_length=8, do_normalize=True`; shorter audio has zeros in front, longer audio loses its beginning. The output is
one probability, after the sigmoid, that the turn is complete; above 0.5 it counts as complete. It was trained on 23
languages and does not use text.

The tests compare the features with those of transformers' WhisperFeatureExtractor (they differ by 1.2e-7), and judge
whole and broken-off sentences with the published weights: 0.82 … 0.99 for whole ones of a natural voice, 0.05 … 0.49
for many that break off; robot voices such as espeak's leave the network undecided. A verdict takes 50 ms of computing.

The features are computed with numpy here, 10 ms for a verdict: the library that has them, transformers, is 60 MB and
uses the same numpy. Features and network run in a thread, so that the event loop goes on.
"""

from __future__ import annotations

from vivavoce.plugins.smart_turn.detector import TurnDetector

__all__ = ["TurnDetector"]
