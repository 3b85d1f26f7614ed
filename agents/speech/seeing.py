"""Seeing: the pictures of the caller's camera or screen that a session keeps, and the pictures in a model's request.

Pictures belong to the user's turns in requests and are not part of the history: it stays small, and so does a snapshot.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from dataclasses import replace

from vivavoce.agents.core.context import Live
from vivavoce.agents.transports.options import VideoInputOptions
from vivavoce.pipelines.core.errors import CapabilityError
from vivavoce.pipelines.llm.chat_context import ChatContext, ChatMessage
from vivavoce.pipelines.media.frame import VideoFrame
from vivavoce.pipelines.pipeline import Pipeline, PipelineCapabilities

CELL_CHANGE = 8
"""Grey values, of 256, by which a cell of a thumbnail must differ to count as changed; noise and codecs stay below."""


def sees(capabilities: PipelineCapabilities) -> bool:
    """Return whether a pipeline sees the caller: as a stream, or by the pictures of each turn."""
    return capabilities.takes_video or capabilities.sees_turns


def check_sees(live: Live, pipeline: Pipeline) -> None:
    """Refuse a pipeline that does not see, in place of the one in use, which is shown the caller's video.

    Raises:
        CapabilityError: It does not see.
    """
    if live.is_shown and sees(live.capabilities) and not sees(pipeline.capabilities):
        raise _blind(pipeline.name)


def _blind(name: str) -> CapabilityError:
    remedy = "use an LLM that takes images, or a realtime model that takes video; or leave out RoomOptions.video_input"
    return CapabilityError(name, "seeing the caller's video", remedy)


def change(before: bytes, after: bytes) -> float:
    """Return the share of cells that differ between two thumbnails, 0 to 1; 1 if they cannot be compared."""
    if not after or len(before) != len(after):
        return 1.0
    from vivavoce.pipelines.core.native_threads import numpy as np

    cells = np.frombuffer(before, np.uint8).astype(np.int16) - np.frombuffer(after, np.uint8)
    return float(np.mean(np.abs(cells) > CELL_CHANGE))


class Seeing:
    """Keeps new pictures, up to a small number; the oldest are dropped first."""

    def __init__(self, live: Live) -> None:
        self._live = live
        self._options: VideoInputOptions | None = None
        self._next_at = 0.0
        self._thumbnail = b""
        self._current: VideoFrame | None = None
        """The newest picture while the caller shows video."""
        self._newest: deque[VideoFrame] = deque()
        self._pending: deque[VideoFrame] = deque()
        """Pictures since the last turn."""
        self._of_turns: dict[str, tuple[VideoFrame, ...]] = {}
        """Pictures by the id of the user's message, oldest turn first."""

    def open(self, options: VideoInputOptions | None) -> None:
        """Take pictures from now on, if the room has options for them.

        Raises:
            CapabilityError: The pipeline does not see.
        """
        if options is None:
            return
        if not sees(self._live.capabilities):
            raise _blind("the pipeline")
        self._options, self._live.is_shown = options, True
        self._newest = deque(maxlen=max(options.max_images, options.max_turn_images))
        self._pending = deque(maxlen=options.max_turn_images)

    # --- pictures in

    def wants(self, now: float) -> bool:
        """Return whether a picture is due, and the pipeline sees pictures."""
        if self._options is None or now < self._next_at or not sees(self._live.capabilities):
            return False
        self._next_at = now + 1 / self._options.fps
        return True

    def take(self, frame: VideoFrame, thumbnail: bytes) -> bool:
        """Keep a picture if it is new; return whether it is.

        Args:
            thumbnail: Its grey values, by which it is compared; without them it counts as new.
        """
        assert self._options is not None, "it was wanted"
        if self._current is not None and change(self._thumbnail, thumbnail) < self._options.min_change:
            return False
        self._current, self._thumbnail = frame, thumbnail
        self._newest.append(frame)
        self._pending.append(frame)
        return True

    def stopped(self) -> None:
        """Forget the current picture, since the caller shows no video any more."""
        self._current = None

    def newest(self, count: int) -> tuple[VideoFrame, ...]:
        """Return the newest pictures, oldest first."""
        return tuple(self._newest)[-count:]

    def commit(self, item_id: str) -> None:
        """Give the pictures since the last turn to the user's message of that id, which may already have some."""
        if self._options is None or not self._pending:
            return
        self._of_turns[item_id] = (self._of_turns.pop(item_id, ()) + tuple(self._pending))[
            -self._options.max_turn_images :
        ]
        self._pending.clear()
        every = [(item, picture) for item, pictures in self._of_turns.items() for picture in pictures]
        self._of_turns = {}
        for item, picture in every[-self._options.max_images :]:
            self._of_turns[item] = (*self._of_turns.get(item, ()), picture)

    # --- pictures out

    @property
    def is_shown(self) -> bool:
        """Whether requests carry pictures now."""
        return bool(self._of_turns or self._pending) and self._live.capabilities.sees_turns

    def with_newest(self, context: ChatContext, turn_id: str, *, is_open: bool) -> ChatContext:
        """Return the conversation with the pictures that no limit removes: those of the turn, or else the current one.

        Args:
            is_open: Whether the turn is not committed yet.
        """
        message = _user_message(context, turn_id)
        if message is None:
            return context
        own = self._of_turns.get(message.id, ())
        if is_open and self._options is not None:
            own = (own + tuple(self._pending))[-self._options.max_turn_images :]
        if own:
            return _showing(context, message, own)
        holder = next((m for m in context.messages("user") if self._current in self._of_turns.get(m.id, ())), None)
        if holder is not None and self._current is not None:
            return _showing(context, holder, (self._current,))
        return context

    def with_older(
        self, part: ChatContext, turn_id: str, *, tokens: float, count_tokens: Callable[[ChatMessage], int]
    ) -> ChatContext:
        """Return the cut conversation with the current picture, if it is missing, and with older ones, newest first.

        Args:
            tokens: The tokens that are left for older pictures.
        """
        assert self._options is not None, "it has pictures"
        shown = [image for message in part.messages("user") for image in message.images]
        message = _user_message(part, turn_id)
        if message is not None and self._current is not None and all(image is not self._current for image in shown):
            part = _showing(part, message, (self._current,))
            shown.append(self._current)
        left = self._options.max_images - sum(1 for image in shown if self._is_ours(image))
        for older in reversed(part.messages("user")):
            missing = [one for one in self._of_turns.get(older.id, ()) if all(one is not image for image in shown)]
            while missing and left > 0:
                more = replace(older, images=(missing[-1], *older.images))
                tokens -= count_tokens(more) - count_tokens(older)
                if tokens < 0:
                    return part
                part.replace(more)
                older, left = more, left - 1
                missing.pop()
        return part

    def _is_ours(self, image: VideoFrame) -> bool:
        kept = (*self._pending, *(one for pictures in self._of_turns.values() for one in pictures))
        return any(image is one for one in kept)


def _user_message(context: ChatContext, turn_id: str) -> ChatMessage | None:
    return next((m for m in reversed(context.messages("user")) if turn_id and m.turn_id == turn_id), None)


def _showing(context: ChatContext, message: ChatMessage, pictures: tuple[VideoFrame, ...]) -> ChatContext:
    shown = context.copy()
    shown.replace(replace(message, images=message.images + pictures))
    return shown
