"""FallbackSTT: continues with the next recogniser if one fails; it hears the audio of the open utterance again."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from contextlib import aclosing
from dataclasses import dataclass
from functools import partial
from typing import ClassVar

import anyio

from vivavoce.pipelines.core.boundary import guarded, provider_errors
from vivavoce.pipelines.core.checks import check_number
from vivavoce.pipelines.core.clock import Clock
from vivavoce.pipelines.core.errors import ProviderError, ProviderTimeoutError
from vivavoce.pipelines.core.members import FallbackOptions, Member, Members, check_options, final_error
from vivavoce.pipelines.media.frame import FRAME_SECONDS, AudioFrame
from vivavoce.pipelines.stt.base import (
    STT,
    STT_EVENTS,
    STTCapabilities,
    STTStream,
    open_stream,
    warn_of_key_terms,
)
from vivavoce.pipelines.stt.fallback_stream import FallbackStream

logger = logging.getLogger(__name__)

CHECK_SECONDS = 0.5
"""Length of the silence that a check sends, and of its wait for an error."""


@dataclass(frozen=True, slots=True, kw_only=True)
class FallbackSTTOptions(FallbackOptions):
    """When a `FallbackSTT` goes on with the next recogniser.

    Each option: docs/options.md.
    """

    open_timeout: float = 4.0
    """Seconds for each recogniser to open a stream. The session's own limit is for all of them together."""
    final_limit: float = 2.0
    """Seconds from the end of speech to its final transcript, after which the next recogniser takes over."""
    kept_seconds: float = 15.0
    """Audio without a final transcript that is kept for the next recogniser."""

    def __post_init__(self) -> None:
        FallbackOptions.__post_init__(self)
        check_number("open_timeout", self.open_timeout, above=0, unit="s")
        check_number("final_limit", self.final_limit, above=0, unit="s")
        check_number("kept_seconds", self.kept_seconds, above=0, unit="s")


class FallbackSTT(STT):
    """Recognises with the first recogniser that works.

    If a stream is lost, cannot be opened in time or owes a final transcript for too long, the next recogniser takes
    over within the call. It hears the audio since the last final transcript again, so that no word is lost and none
    comes twice. A recogniser owes a transcript after interims, and one that needs a flush owes it after each. Another
    one that reports nothing of a second of speech is in doubt: the next recogniser hears that speech too, and takes
    over if it hears words; else it was noise. In the background a short silence checks whether a recogniser that failed
    works again; one that was too slow is tried again after `retry_after`. In a silence the call goes back to the
    preferred recogniser. The code that made the recognisers closes them.

    If all of them judge the ends of turns, their judgements pass, and none owes a final at the end of speech. If only
    some do, the turn detector and the waits of the session end turns, whichever of them serves. If only some report
    interims, none are passed on: voice alone interrupts the agent then, as with any recogniser without interims.

    Args:
        recognisers: In order of preference; at least two.
    Raises:
        ConfigurationError: There are not two recognisers.
    """

    provider: ClassVar[str] = "fallback"

    def __init__(
        self, recognisers: Sequence[STT], options: FallbackSTTOptions | None = None, *, clock: Clock | None = None
    ) -> None:
        check_options(options, FallbackSTTOptions, STT, "FallbackSTT")
        self._options = options or FallbackSTTOptions()
        self._members: Members[STT] = Members("stt", recognisers, STT, self._options, check=self._check, clock=clock)
        self._capabilities = _common(self._members.components)

    @property
    def model(self) -> str:
        """Provider and name of the recogniser that was opened last."""
        return self._members.in_use

    @property
    def members(self) -> tuple[STT, ...]:
        """All recognisers, in order of preference."""
        return self._members.components

    @property
    def capabilities(self) -> STTCapabilities:
        """The abilities that all recognisers have and the needs that one has, at the rate of the first one.

        Words and speakers of a recogniser are passed on even if others have none. Key terms are for those that take
        them.
        """
        return self._capabilities

    async def open(self) -> FallbackStream:
        """Open a stream of the first recogniser that works.

        Raises:
            ProviderError: No recogniser works.
        """
        return await self._open(())

    async def open_with_key_terms(self, terms: Sequence[str]) -> STTStream:
        """Open a stream as `open()` does; the recognisers that take key terms get them."""
        if not self._capabilities.takes_key_terms:
            return await super().open_with_key_terms(terms)
        for stt in self.members:
            if not stt.capabilities.takes_key_terms:
                warn_of_key_terms(stt)
        return await self._open(terms)

    async def _open(self, terms: Sequence[str]) -> FallbackStream:
        errors: list[ProviderError] = []
        for member, successor in self._members.line():
            try:
                stream = await self._open_member(terms, member)
            except ProviderError as error:
                self._members.failed(member, error, successor)
                errors.append(error)
                continue
            self._members.serves(member)
            return FallbackStream(
                self._members,
                member,
                stream,
                open_member=partial(self._open_member, terms),
                capabilities=self._capabilities,
                final_limit=self._options.final_limit,
                kept_seconds=self._options.kept_seconds,
            )
        raise final_error(errors)

    async def _open_member(self, terms: Sequence[str], member: Member[STT]) -> STTStream:
        limit, stt = self._options.open_timeout, member.component
        with anyio.move_on_after(limit), provider_errors(stt.provider, retryable=True):
            return await open_stream(stt, terms)
        raise ProviderTimeoutError(f"no stream within {limit:g} s", provider=stt.provider)

    async def _check(self, stt: STT) -> None:
        stream = await stt.open()
        try:
            rate = stt.capabilities.sample_rate
            for _ in range(round(CHECK_SECONDS / FRAME_SECONDS)):
                stream.push(AudioFrame.silence(FRAME_SECONDS, rate))
            with anyio.move_on_after(CHECK_SECONDS):
                events = guarded(stream.events, STT_EVENTS, stt.provider)
                async with aclosing(events):
                    async for _ in events:
                        pass
                raise ProviderError("the stream ended by itself", provider=stt.provider)
        finally:
            with anyio.move_on_after(CHECK_SECONDS, shield=True):
                await stream.aclose()


def _common(recognisers: Sequence[STT]) -> STTCapabilities:
    all_of = [stt.capabilities for stt in recognisers]
    silent = [stt.provider for stt in recognisers if not stt.capabilities.emits_interims]
    if silent and len(silent) < len(recognisers):
        logger.info("the interims of a FallbackSTT's other recognisers are not used: %s has none", ", ".join(silent))
    return STTCapabilities(
        sample_rate=all_of[0].sample_rate,
        emits_interims=not silent,
        emits_end_of_turn=all(one.emits_end_of_turn for one in all_of),
        needs_flush=any(one.needs_flush for one in all_of),
        emits_words=all(one.emits_words for one in all_of),
        diarizes=all(one.diarizes for one in all_of),
        takes_key_terms=any(one.takes_key_terms for one in all_of),
    )
