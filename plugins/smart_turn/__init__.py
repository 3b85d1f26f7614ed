"""Smart Turn v3: judges by the sound whether a turn is over, with a small neural network on onnxruntime.

The weights are not part of vivavoce. Get a file of pipecat-ai/smart-turn-v3 (BSD 2-clause; 8 MB `…-cpu.onnx`, or 32 MB
unquantised), then

    pip install 'vivavoce[smart-turn]'
    CascadingPipeline(..., turn_detector=smart_turn.TurnDetector("/models/smart-turn-v3.2-cpu.onnx"))

The public facts about the network, from its README and the code around it: the input `input_features` of shape
(batch, 80, 800) is the log-mel spectrogram of 8 s of 16 kHz audio as Whisper's feature extractor computes it with
`chunk_length=8, do_normalize=True`; shorter audio has zeros in front, longer audio loses its beginning. The output is
one probability, after the sigmoid, that the turn is complete; above 0.5 it counts as complete. It was trained on 23
languages and does not use text.

The tests compare the features with those of transformers' WhisperFeatureExtractor (they differ by 1.2e-7), and test
everything else with a network of the same inputs and outputs that they build themselves. The published weights were not
run, so nothing is claimed about their quality; see the model's own figures, and try them on your callers.
`VIVAVOCE_SMART_TURN=/path/to/file.onnx pytest tests/plugins/smart_turn` runs them.

The features are computed with numpy here, 10 ms for a verdict: the library that has them, transformers, is 60 MB and
uses the same numpy. Features and network run in a thread, so that the event loop goes on.
"""

from __future__ import annotations

from vivavoce.plugins.smart_turn.detector import TurnDetector

__all__ = ["TurnDetector"]
