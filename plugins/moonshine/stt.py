"""STT: any English sentence, recognised on this machine."""

from __future__ import annotations

from vivavoce.pipelines.stt import base
from vivavoce.pipelines.stt.base import STTCapabilities
from vivavoce.pipelines.stt.by_utterance import SAMPLE_RATE, Heard, UtteranceStream
from vivavoce.plugins.moonshine.network import PROVIDER, THREAD, Network, shared_network
from vivavoce.plugins.moonshine.options import STTOptions
from vivavoce.plugins.moonshine.weights import PACKAGE, VERSION, find_folder

LANGUAGE = "en"


class STT(base.STT):
    """Moonshine tiny; all sessions of a process share its weights.

    Args:
        options: More settings.
    Raises:
        ConfigurationError: A needed package is not installed, or another version of it; there may be no wheel for this
            machine. `load()` and `open()` raise it for damaged weights.
    """

    provider = PROVIDER

    def __init__(self, *, options: STTOptions | None = None) -> None:
        self._options = options or STTOptions()
        self._folder = find_folder()

    @property
    def model(self) -> str:
        return f"tiny-en ({PACKAGE} {VERSION})"

    @property
    def capabilities(self) -> STTCapabilities:
        interims = self._options.interim_interval is not None
        return STTCapabilities(sample_rate=SAMPLE_RATE, emits_interims=interims, needs_flush=True)

    def load(self) -> None:
        """Load the weights, once a process; for its preparation (prewarm), so that its first call need not wait.

        Raises:
            ConfigurationError: They are damaged, or of another version.
        """
        shared_network(self._folder)

    async def open(self) -> UtteranceStream:
        network = await THREAD.run(shared_network, self._folder)
        return UtteranceStream(
            "moonshine.STT",
            lambda pcm: self._sure(network, pcm),
            THREAD,
            language=LANGUAGE,
            interim_interval=self._options.interim_interval,
        )

    def _sure(self, network: Network, pcm: bytes) -> Heard:
        heard = network.recognise(pcm)
        is_sure = heard.confidence is None or heard.confidence >= self._options.min_confidence
        return heard if is_sure else Heard()
