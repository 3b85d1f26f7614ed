"""PipelineInUse: the connection that serves the session, and the caller's audio that is kept for the next one."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable
from functools import partial

from vivavoce.agents import events as ev
from vivavoce.agents.core.context import SessionContext
from vivavoce.agents.records import ComponentRecord
from vivavoce.agents.session.pipelines.attached import AttachedPipeline
from vivavoce.agents.session.pipelines.leaving import LeftPipelines
from vivavoce.agents.session.pipelines.swap import ComponentSwap
from vivavoce.pipelines.events import LATE_WORDS
from vivavoce.pipelines.media.buffer import RecentFrames
from vivavoce.pipelines.media.frame import AudioFrame
from vivavoce.pipelines.pipeline import ONSET_SECONDS, Pipeline

logger = logging.getLogger(__name__)

LOST_SECONDS = 10.0
"""Seconds of audio that are kept for the pipeline that takes the place of a lost one."""


class PipelineInUse:
    """Takes connections into use, and writes what `context.live` shows of the one in use.

    Args:
        pipeline: The first one.
        left: Closes the connections that were in use before.
    """

    def __init__(self, context: SessionContext, pipeline: Pipeline, left: LeftPipelines) -> None:
        self.pipeline = pipeline
        self.behind = 0.0
        """Seconds of kept audio that follow the frame that the new pipeline is given."""
        self._context = context
        self._live = context.live
        self._left = left
        self._attached: AttachedPipeline | None = None
        self._kept: RecentFrames | None = None

    @property
    def attached(self) -> AttachedPipeline:
        """Its connection."""
        assert self._attached is not None, "open() comes before any use"
        return self._attached

    def is_of(self, attached: AttachedPipeline) -> bool:
        """Whether that connection is in use."""
        return attached is self._attached

    @property
    def failure(self) -> Exception | None:
        """The error by which it was lost for good, if it was."""
        return None if self._attached is None else self._attached.failure

    # --- the change

    def open(self, attached: AttachedPipeline) -> None:
        """The session begins with that connection."""
        self._use(attached)

    def take_components(self, swap: ComponentSwap) -> None:
        """The connection goes on with other components."""
        old = self.pipeline.name
        swap.take()
        self._use(self.attached)
        self._note_change(old)

    def take(self, new: AttachedPipeline) -> None:
        """Another connection serves from here on, and hears the audio that was kept for it."""
        old = self.attached
        new.bring_up_to_date(self._live)
        self._use(new)
        self._note_change(old.pipeline.name)
        kept, self._kept = self._kept, None
        frames = [] if kept is None else kept.drain()
        self.behind = sum(frame.duration for frame in frames)
        for frame in frames:
            self.behind -= frame.duration
            new.connection.push_audio(frame)
        self.behind = 0.0
        self._left.add(old, linger=0.0 if old.failure is not None else LATE_WORDS)

    def _use(self, attached: AttachedPipeline) -> None:
        live = self._live
        self._attached, self.pipeline, live.capabilities = attached, attached.pipeline, attached.capabilities
        live.connection, live.hear = attached.connection, attached.connection.push_audio

    def _note_change(self, old: str) -> None:
        new = self.attached
        parts = tuple(ComponentRecord(*part) for part in new.capabilities.components)
        self._context.log.note(ev.PipelineChanged, old=old, pipeline=new.pipeline.name, components=parts)
        logger.info("The session went from the %s to the %s pipeline", old, new.pipeline.name)

    # --- audio for the next one

    def keep_onset(self) -> None:
        """Keep the last half second of the caller's audio, for a connection that is being opened."""
        if self._kept is None:
            self._kept = kept = RecentFrames(ONSET_SECONDS)
            self._live.hear = partial(_both, kept.push, self.attached.connection.push_audio)

    def speech_ended(self, at: float) -> None:
        """The connection in use has heard an utterance to its end, at that time: the next one hears none of it."""
        if self._kept is not None and self.failure is None:
            self._kept.forget_until(self._context.clock.now() - at)

    def forget_onset(self) -> None:
        """Keep no audio any more: nothing came of that connection."""
        if self._kept is not None and self.failure is None:
            self._kept = None
            self._live.hear = self.attached.connection.push_audio

    def keep_unheard(self, unheard: Iterable[AudioFrame]) -> None:
        """Nothing hears the caller any more: keep the audio from those frames on for the next connection."""
        before = [] if self._kept is None else self._kept.drain()
        self._kept = kept = RecentFrames(LOST_SECONDS)
        self._live.hear = kept.push
        for frame in [*unheard, *before]:
            kept.push(frame)

    async def aclose(self) -> None:
        """End it; the caller sets a limit."""
        if self._attached is not None:
            await self._attached.aclose()


def _both(first: Callable[[AudioFrame], None], then: Callable[[AudioFrame], None], frame: AudioFrame) -> None:
    first(frame)
    then(frame)
