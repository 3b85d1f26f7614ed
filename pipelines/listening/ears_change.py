"""EarsChange: the change of a connection to other components, whose streams are opened beside those in use."""

from __future__ import annotations

from collections.abc import Callable

from vivavoce.pipelines.core.tending import Tending
from vivavoce.pipelines.events import PipelineEvent, PipelineFailed
from vivavoce.pipelines.listening.ears import EarParts, Ears
from vivavoce.pipelines.media.buffer import RecentFrames
from vivavoce.pipelines.pipeline import ConnectionChange, ConnectionPart
from vivavoce.pipelines.speech import SpeechComponents


class EarsChange(ConnectionChange):
    """Changes the ears, and with them the other parts of the connection that change.

    Args:
        emit: Receives the events of the new components from `take()` on.
        on_take: Changes the other parts of the connection.
        on_failure: Called if the new recogniser is lost for good before `take()`.
        tending: The background work of the new components; `on_take` leaves that of the old ones.
    """

    def __init__(
        self,
        ears: Ears,
        components: SpeechComponents,
        emit: Callable[[PipelineEvent], None],
        *,
        on_take: Callable[[], None],
        on_failure: Callable[[Exception], None],
        tending: Tending,
    ) -> None:
        self._ears = ears
        self._emit = emit
        self._on_take: Callable[[], None] | None = on_take
        self._on_failure = on_failure
        self._is_taken = False
        self._recent: RecentFrames | None = None
        self._old = old = ears.parts
        self._new = new = ears.others(components, self._pass_on)
        self._unused = [stage for stage in new.streams if not _is_in(stage, old)]
        self.hears = bool(self._unused) or new.recognizer is not old.recognizer
        parts: list[ConnectionPart] = []
        if new.recognizer is not None and new.recognizer is not old.recognizer:
            parts.append(new.recognizer.run)
        if new.predictor is not None and new.predictor is not old.predictor:
            parts.append(new.predictor.serve)
        if tending.needs_task:
            parts.append(tending.run)
        self.parts = tuple(parts)

    def open(self) -> None:
        """Open the new streams that work without waiting, and keep the caller's audio for them from now on.

        Raises:
            ProviderError: One cannot be opened.
        """
        for stage in self._unused:
            stage.open()
        if self.hears:
            self._recent = self._ears.keep_recent()

    def take(self) -> None:
        """Use the new components from now on, and leave the old ones."""
        old, new, on_take = self._old, self._new, self._on_take
        self._is_taken = True
        self._unused = [stage for stage in old.streams if not _is_in(stage, new)]
        self._old, self._on_take = new, None  # the new components hold this object for as long as they serve
        assert on_take is not None, "a change is taken once"
        on_take()
        self._ears.take(new, self._recent)
        if old.predictor is not None and old.predictor is not new.predictor:
            old.predictor.leave()

    def close(self) -> None:
        """Close the streams that are not in use: the old streams after `take()`, otherwise the new ones."""
        if not self._is_taken and self._recent is not None:
            self._ears.forget_recent(self._recent)
        unused, self._unused = self._unused, []
        for stage in unused:
            stage.close()

    def _pass_on(self, event: PipelineEvent) -> None:
        if self._is_taken:
            self._emit(event)
        elif isinstance(event, PipelineFailed) and not event.recovered:
            self._on_failure(event.error)


def _is_in(stage: object, parts: EarParts) -> bool:
    return any(stage is other for other in parts.streams)
