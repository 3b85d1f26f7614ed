"""FallbackRealtime: connects to the next model if one fails, at a session's start and during it."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from dataclasses import replace
from typing import ClassVar, Never

import anyio

from vivavoce.pipelines.core.boundary import provider_errors
from vivavoce.pipelines.core.checks import check_number
from vivavoce.pipelines.core.clock import Clock, LoopClock
from vivavoce.pipelines.core.errors import CapabilityError, ProviderError, ProviderTimeoutError
from vivavoce.pipelines.core.incidents import FellBack, passed_over
from vivavoce.pipelines.core.members import check_list, check_members, name_of
from vivavoce.pipelines.realtime_model.base import (
    RealtimeCapabilities,
    RealtimeConnection,
    RealtimeModel,
    RealtimeSetup,
)

logger = logging.getLogger(__name__)


class FallbackRealtime(RealtimeModel):
    """Connects to the first model that accepts a connection.

    A model that failed is passed over for `retry_after` seconds; then it is first again for the next connection. A lost
    connection is replaced in the same order, so that the conversation goes on with another model, which receives the
    history. The code that made the models closes them.

    Args:
        models: In order of preference; at least two, which must agree in the audio's rates.
        retry_after: Seconds for which a model that failed is not tried.
        open_timeout: Seconds for each model to connect; a session's own limit, 10 s, is for all of them together.
    Raises:
        ConfigurationError: There are not two models.
        CapabilityError: The models have nothing in common, or take or make audio of different rates.
    """

    provider: ClassVar[str] = "fallback"

    def __init__(
        self,
        models: Sequence[RealtimeModel],
        *others: Never,
        retry_after: float = 60.0,
        open_timeout: float = 4.0,
        clock: Clock | None = None,
    ) -> None:
        check_list(others, "FallbackRealtime")
        found = check_members("realtime_model", models, RealtimeModel)
        check_number("retry_after", retry_after, at_least=0, unit="s")
        check_number("open_timeout", open_timeout, above=0, unit="s")
        self._open_timeout = open_timeout
        self._models: tuple[RealtimeModel, ...] = found
        self._retry_after = retry_after
        self._clock = clock or LoopClock()
        self._capabilities = _common(self._models)
        self._failed_at: dict[int, float] = {}
        self._in_use = self._models[0]

    @property
    def model(self) -> str:
        """Provider and name of the latest connected model."""
        return name_of(self._in_use)

    @property
    def capabilities(self) -> RealtimeCapabilities:
        """The abilities that all of them have; `answers_results` is as with the latest connected model."""
        return replace(self._capabilities, answers_results=self._in_use.capabilities.answers_results)

    async def open(self, setup: RealtimeSetup) -> RealtimeConnection:
        """Connect to the first model that accepts a connection.

        Raises:
            ProviderError: No model does; the error of the last one tried.
        """
        now = self._clock.now()
        rested = [
            n for n in range(len(self._models)) if now - self._failed_at.get(n, float("-inf")) >= self._retry_after
        ]
        others = [n for n in range(len(self._models)) if n not in rested]
        last: ProviderError | None = None
        order = [*rested, *others]  # if all have failed lately, all are tried nevertheless
        for number, following in zip(order, [*order[1:], None], strict=True):
            model = self._models[number]
            try:
                connection = await self._open_in_time(model, setup)
            except ProviderError as error:
                logger.warning("No connection to %s, the next model is tried: %s", model.provider, error)
                self._failed_at[number], last = self._clock.now(), error
                successor = "" if following is None else name_of(self._models[following])
                passed_over(
                    FellBack(
                        "realtime_model",
                        model.provider,
                        model.model,
                        error,
                        successor=successor,
                        is_reported=following is None,  # the caller of open() gets it
                    )
                )
                continue
            self._failed_at.pop(number, None)
            self._in_use = model
            return connection
        assert last is not None
        raise last

    async def _open_in_time(self, model: RealtimeModel, setup: RealtimeSetup) -> RealtimeConnection:
        with anyio.move_on_after(self._open_timeout), provider_errors(model.provider, retryable=True):
            return await model.open(setup)
        raise ProviderTimeoutError(f"no connection within {self._open_timeout:g} s", provider=model.provider)


def _common(models: Sequence[RealtimeModel]) -> RealtimeCapabilities:
    all_of = [model.capabilities for model in models]
    first = all_of[0]
    for model, other in zip(models, all_of, strict=True):
        if (other.input_rate, other.output_rate) != (first.input_rate, first.output_rate):
            ours, its = (first.input_rate, first.output_rate), (other.input_rate, other.output_rate)
            raise CapabilityError(
                model.provider, f"audio of {ours} Hz, instead of {its}", "set the rates of the models"
            )
        if other.starts_replies != first.starts_replies:
            raise CapabilityError(model.provider, "answers begun by the same side", "have both servers answer, or none")
    turns = frozenset.intersection(*(one.turn_detection for one in all_of))
    makes_audio = all(one.generates_audio for one in all_of)
    makes_text = all(one.generates_text for one in all_of)
    if not turns or not (makes_audio or makes_text):
        raise CapabilityError("fallback", "something in common", "choose models that answer and take turns alike")
    limits = [one.max_seconds for one in all_of if one.max_seconds is not None]
    return RealtimeCapabilities(
        input_rate=first.input_rate,
        output_rate=first.output_rate,
        turn_detection=turns,
        starts_replies=first.starts_replies,
        generates_audio=makes_audio,
        generates_text=makes_text,
        says_verbatim=all(one.says_verbatim for one in all_of),
        truncates=all(one.truncates for one in all_of),
        deletes=all(one.deletes for one in all_of),
        sends_transcripts=all(one.sends_transcripts for one in all_of),
        supports_tools=all(one.supports_tools for one in all_of),
        supports_images=all(one.supports_images for one in all_of),
        takes_video=all(one.takes_video for one in all_of),
        updates=all(one.updates for one in all_of),
        max_seconds=min(limits, default=None),
    )
