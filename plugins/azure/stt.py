"""STT: the recogniser of Azure Speech, over its websocket.

Why the wire is ours and not the vendor's SDK: one pool, one policy of limits and one table of errors for all
providers; and the SDK has threads and callbacks of its own, and no asyncio. It proves the twin instead.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from vivavoce.pipelines.core.checks import check_text
from vivavoce.pipelines.core.errors import ConfigurationError
from vivavoce.pipelines.net.tokens import TokenProvider
from vivavoce.pipelines.stt import base
from vivavoce.pipelines.stt.base import STTCapabilities
from vivavoce.plugins.azure.client import AzureComponent, Service
from vivavoce.plugins.azure.models import LOCALES, MAX_CANDIDATES, locales_like
from vivavoce.plugins.azure.options import STTOptions, check_terms
from vivavoce.plugins.azure.stream import RATE, ListenStream

DEFAULT_LANGUAGE = "en-US"

SERVICE = Service(
    "stt",
    in_region="stt/speech/universal/v2",
    in_resource="stt/speech/universal/v2",
    in_container="speech/recognition/conversation/cognitiveservices/v1",
)


class STT(AzureComponent, base.STT):
    """The recogniser of Azure Speech, or of a container of your own; share one between sessions.

    It settles phrases by itself; with a VAD in the pipeline they are settled as soon as speech ends.

    Args:
        language: A locale such as `"en-US"`; several: the service detects the language, and follows a change.
        api_key: Else the environment's `AZURE_SPEECH_KEY`, `SPEECH_KEY` or `AZURE_SPEECH_API_KEY`, for hosts of
            Microsoft.
        token_provider: Returns a token of Microsoft Entra ID in place of a key, sync or async; called for each
            connection. At a region's address the token is `"aad#RESOURCE_ID#TOKEN"`.
        region: Such as `"westeurope"`, also of a sovereign cloud; else `AZURE_SPEECH_REGION` or `SPEECH_REGION`.
        base_url: The endpoint of a resource, or a container of your own; else `AZURE_SPEECH_ENDPOINT`.
    Raises:
        ConfigurationError: The key or the region is missing, or an argument is invalid.
    """

    def __init__(
        self,
        *,
        language: str | Sequence[str] = DEFAULT_LANGUAGE,
        api_key: str | None = None,
        token_provider: TokenProvider | None = None,
        region: str | None = None,
        base_url: str | None = None,
        options: STTOptions | None = None,
    ) -> None:
        self._options = options or STTOptions()
        self._languages = checked_languages(language)
        super().__init__(
            "azure.STT",
            SERVICE,
            api_key=api_key,
            token_provider=token_provider,
            region=region,
            base_url=base_url,
            options=self._options.connection,
        )
        if len(self._languages) > 1 and not self.is_newest:
            raise ConfigurationError(
                f"a container has one language, got {', '.join(self._languages)}; give one, or the cloud's base_url"
            )

    @property
    def model(self) -> str:
        """The custom model, if there is one."""
        return self._options.deployment

    @property
    def capabilities(self) -> STTCapabilities:
        return STTCapabilities(
            sample_rate=RATE,
            emits_interims=True,
            emits_words=True,
            diarizes=self._options.diarize,
            takes_key_terms=True,
        )

    async def open(self) -> ListenStream:
        """Connect and return a stream.

        Raises:
            ProviderError: It cannot connect, or the service refuses the settings.
        """
        return await self._opened(self._options.key_terms)

    async def open_with_key_terms(self, terms: Sequence[str]) -> ListenStream:
        """Open a stream that also expects these words.

        Raises:
            ProviderError: As `open()`.
        """
        check_terms(tuple(terms))
        return await self._opened(tuple(dict.fromkeys((*self._options.key_terms, *terms))))

    async def _opened(self, terms: tuple[str, ...]) -> ListenStream:
        stream = ListenStream(self, self._languages, terms, self._options, asked=_asked(self._languages))
        await stream.open()
        return stream


def checked_languages(language: str | Iterable[str]) -> tuple[str, ...]:
    """Return the languages that were asked for.

    Raises:
        ConfigurationError: There is none or there are too many, or one is no locale.
    """
    languages = (language,) if isinstance(language, str) else tuple(dict.fromkeys(language))
    if not 1 <= len(languages) <= MAX_CANDIDATES:
        raise ConfigurationError(f"need 1 to {MAX_CANDIDATES} languages, got {len(languages)}")
    for one in languages:
        if not check_text("language", one).replace("-", "").isalnum() or not one.isascii() or "-" not in one:
            raise ConfigurationError(
                f"language must be a locale such as {', '.join(map(repr, locales_like(one)[:3]))}, got {one!r}"
            )
    return languages


def _asked(languages: tuple[str, ...]) -> str:
    asked = f"asked for language {', '.join(map(repr, languages))}"
    known = {one.casefold() for one in LOCALES}
    unknown = next((one for one in languages if one.casefold() not in known), None)
    if unknown is None:
        return f"{asked}; check it, the options and the region"
    return f"{asked}; known are {', '.join(locales_like(unknown))}; check language"
