"""Stages: the silence between the user's last sound and the agent's first, cut into contiguous named pieces."""

from __future__ import annotations

from collections.abc import Sequence

from vivavoce.agents.records import StageOwner, StageRecord, WaitRecord
from vivavoce.agents.turn.effects import TurnTiming
from vivavoce.agents.turn.options import EndpointingOptions

MODEL_STAGE: tuple[str, StageOwner] = ("model_first_token", "provider")
SERVER_STAGE: tuple[str, StageOwner] = ("server_first_output", "provider")
FLOW_STAGE: tuple[str, StageOwner] = ("flow_first_text", "user_code")
"""Names of the wait for an answer's first piece in a turn's record, by the answer's source."""
CHECKPOINT_STAGE: tuple[str, StageOwner] = ("checkpoint", "runtime")
"""Name of the wait for the store that keeps the call for a crash."""


class Stages:
    """Pieces from the true end of the user's speech to the first frame played; each begins where the last one ended.

    Args:
        now: The begin of the first stage, until a user's turn sets another.
    """

    def __init__(self, now: float) -> None:
        self.created_at = now
        self.speech_ended_at: float | None = None
        self.first_played_at: float | None = None
        self._boundary = now
        self._stages: dict[str, StageRecord] = {}

    def committed(self, timing: TurnTiming, *, is_server_vad: bool) -> None:
        """Take the turn machine's times of the end of the user's turn.

        Args:
            is_server_vad: Whether a model's server reported the end of speech, and not a VAD of the session.
        """
        self.speech_ended_at = self._boundary = timing.speech_ended_at
        if timing.ended_by == "remote_reply":  # the server waited for nothing of ours, no transcript either
            if is_server_vad:
                self.mark("server_vad_silence", "provider", timing.end_reported_at)
            self.mark("server_end_of_turn", "provider", timing.committed_at)
            return
        if timing.ended_by == "recogniser":  # it waited for no option of ours
            self.mark("end_of_turn_decision", "provider", timing.committed_at)
            return
        self.mark("vad_silence", "config", timing.end_reported_at)
        self.mark("transcript_wait", "provider", timing.final_at)
        self.mark("end_of_turn_decision", "provider", timing.predicted_at)
        self.mark("endpointing_wait", "config", timing.committed_at)

    def mark(self, name: str, owner: StageOwner, at: float | None) -> None:
        """End a stage at `at`. Stages of one name add up; nothing counts after the first frame played."""
        if at is None or self.first_played_at is not None or at <= self._boundary:
            return
        before = self._stages.get(name)
        seconds = at - self._boundary + (before.seconds if before else 0.0)
        self._stages[name] = StageRecord(name, owner, seconds)
        self._boundary = at

    def played(self, at: float) -> None:
        """The first frame of a step is played; only the turn's first one counts."""
        self.mark("playout", "runtime", at)
        if self.first_played_at is None:
            self.first_played_at = at

    def taken_back(self, at: float) -> None:
        """The frame that was due at that time was not played; another one will be the first."""
        if self.first_played_at == at:
            self.first_played_at = None

    @property
    def latency(self) -> float | None:
        """Seconds from the end of the user's speech to the first frame; None without either."""
        if self.speech_ended_at is None or self.first_played_at is None:
            return None
        return self.first_played_at - self.speech_ended_at

    def records(self) -> tuple[StageRecord, ...]:
        """Return the stages, which sum to the latency; none where nothing was heard."""
        return tuple(self._stages.values()) if self.latency is not None else ()


def configured_waits(
    stages: Sequence[StageRecord], timing: TurnTiming, options: EndpointingOptions, vad_silence: float
) -> tuple[WaitRecord, ...]:
    """Return the cost of configured waits in a turn, by option.

    Args:
        vad_silence: Seconds by which the VAD reports the end of speech late.
    """
    seconds = {stage.name: stage.seconds for stage in stages if stage.owner == "config"}
    waits = []
    if "vad_silence" in seconds:
        waits.append(WaitRecord(option="vad.min_silence", configured=vad_silence, seconds=seconds["vad_silence"]))
    if "endpointing_wait" in seconds and timing.delay is not None:
        if timing.ended_by == "transcript_timeout":
            option = "transcript_timeout"
        elif timing.delay == options.min_delay:
            option = "min_delay"
        else:
            option = "max_delay" if timing.delay == options.max_delay else "dynamic"
        waits.append(
            WaitRecord(option=f"endpointing.{option}", configured=timing.delay, seconds=seconds["endpointing_wait"])
        )
    return tuple(waits)
