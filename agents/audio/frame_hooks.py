"""FrameHooks: passes each frame of audio to the handlers and the agent's hooks that observe it."""

from __future__ import annotations

import logging
from collections.abc import Callable

from vivavoce.agents.agent import Agent, AgentControl
from vivavoce.agents.core.application_code import application_code, outside_of_tasks
from vivavoce.agents.core.context import SessionContext
from vivavoce.agents.events import SpeechIn, SpeechOut
from vivavoce.pipelines.core.errors import located
from vivavoce.pipelines.media.frame import AudioFrame

logger = logging.getLogger(__name__)

_AudioHook = Callable[[AudioFrame], None]


class FrameHooks:
    """Calls the observers of audio, synchronously, and outside of tasks: frames come from callbacks of the loop too.

    Without observers, a frame costs two comparisons.
    """

    def __init__(self, context: SessionContext) -> None:
        self._live = context.live
        self._clock = context.clock
        self._log = context.log
        self._emitter = context.log.emitter
        self._agent: Agent | None = None
        """The agent whose two audio hooks are called."""
        self._on_in: _AudioHook | None = None
        self._on_out: _AudioHook | None = None

    def heard(self, frame: AudioFrame) -> None:
        """Pass on the caller's next frame, as the pipeline receives it."""
        if self._emitter.has_speech_in:
            self._emit(SpeechIn, frame)
        if self._live.agent is not self._agent:
            self._take(self._live.agent)
        if self._on_in is not None:
            self._call("on_speech_in", self._on_in, frame)

    def spoken(self, frame: AudioFrame) -> None:
        """Pass on the next frame that was written to the room."""
        if self._emitter.has_speech_out:
            self._emit(SpeechOut, frame)
        if self._live.agent is not self._agent:
            self._take(self._live.agent)
        if self._on_out is not None:
            self._call("on_speech_out", self._on_out, frame)

    def _take(self, agent: Agent) -> None:
        control = AgentControl.of(agent)
        self._agent = agent
        self._on_in = agent.on_speech_in if control.overrides("on_speech_in") else None
        self._on_out = agent.on_speech_out if control.overrides("on_speech_out") else None

    def _emit(self, kind: type[SpeechIn] | type[SpeechOut], frame: AudioFrame) -> None:
        with outside_of_tasks():
            self._emitter.emit(kind(at=self._clock.now() - self._log.started_at, sequence=0, frame=frame))

    def _call(self, name: str, hook: _AudioHook, frame: AudioFrame) -> None:
        try:
            with outside_of_tasks(), application_code(name):
                hook(frame)
        except Exception as error:  # noqa: BLE001 - a user callback must not break the audio path
            if self._log.note_repeated_error(hook, error, "hook"):
                logger.warning("%s raised %s; further errors of it are counted", name, located(error))
                logger.debug("%s raised", name, exc_info=error)
