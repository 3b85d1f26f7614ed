"""DetectingTelephony: the telephone of a session that finds out who has answered its call."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import asdict
from functools import partial
from typing import TYPE_CHECKING, Any

from vivavoce.agents.telephony.detection.verdict import CallVerdict
from vivavoce.agents.telephony.session_telephony import SessionTelephony
from vivavoce.pipelines.core.errors import CapabilityError

if TYPE_CHECKING:
    from vivavoce.agents.agent import Agent
    from vivavoce.agents.extension.extension import Host, Judges
    from vivavoce.agents.extension.turn_in_hand import TurnInHand
    from vivavoce.agents.telephony.calls import Calls
    from vivavoce.agents.telephony.detection.detection import AnswerDetection
    from vivavoce.agents.telephony.key_input import KeyInput
    from vivavoce.pipelines.pipeline import Pipeline

SPARE = 5.0
"""Seconds by which a turn may wait longer than for the verdict."""


class DetectingTelephony(SessionTelephony):
    """Begins a detection with the call, and lets the words of machines have no answer."""

    def __init__(self, host: Host, keys: KeyInput, calls: Calls, detection: AnswerDetection) -> None:
        super().__init__(host, keys, calls, detection)
        self._detection = detection
        self.turn_limit = detection.options.limit + SPARE

    def check(self, agent: Agent, pipeline: Pipeline) -> None:
        """Check that the pipeline hears the other side."""
        if not pipeline.capabilities.can_listen:
            remedy = "give it a VAD and an STT, or leave machine_detection out"
            raise CapabilityError(pipeline.name, "ears for machine_detection", remedy)

    @property
    def judges(self) -> Judges:
        """What it must know before an answer begins: the whole turn, until a verdict lets answers begin."""
        return "turn" if self._detection.is_deciding else "nothing"

    async def begin(self) -> None:
        """Wait for the answer to the call from now on, unless it was judged; the agent's speech waits too."""
        if self._detection.last_verdict is None:
            self._detection.begin()

    async def on_turn(self, turn: TurnInHand) -> None:
        """Drop a turn of a machine; a greeting too whose answer the application speaks."""
        if await self._detection.takes_turn(None if turn.is_ahead else turn.record.user_onset):
            return
        if turn.is_remote:
            turn.handle.interrupt(force=True)
        else:
            turn.drop()

    def take(self) -> Callable[[], Any] | None:
        """Take the verdict: a session that continues the call does not judge it again."""
        verdict = self._detection.last_verdict
        return None if verdict is None else partial(asdict, verdict)

    def restore(self, data: Any) -> None:
        """Continue with that verdict."""
        self._detection.restore(CallVerdict(**data))

    def end(self) -> None:
        """Find out nothing more, and take no more keys: the close begins."""
        self._detection.end()
        super().end()
