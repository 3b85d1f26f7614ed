"""SpeechLimits: how long a reply waits for its providers and hooks."""

from __future__ import annotations

from dataclasses import dataclass

from vivavoce.pipelines.core.checks import check_number, check_whole


@dataclass(frozen=True, slots=True, kw_only=True)
class SpeechLimits:
    """Limits for a reply's wait for its providers and hooks, in seconds; beyond a limit the turn fails.

    Each option: docs/options.md.
    """

    llm_first_token: float = 10.0
    """Seconds from a request to the model's first word or tool call; also to the first text of a stream given to
    `say()`."""
    llm_stall: float = 10.0
    """Seconds between two outputs of the model after that; also between two texts of a stream given to `say()`."""
    tts_first_byte: float = 5.0
    """Seconds from text that can be spoken to the voice's first audio."""
    tts_stall: float = 5.0
    """Seconds between two pieces of audio after that, also of audio given in place of a synthesis."""
    stt_stage: float = 2.0
    """Seconds for which an agent's `stt_stage` may keep a transcript, which then goes on as the recogniser gave it."""
    hook_timeout: float = 10.0
    """Seconds for one run of a hook of the agent, such as `on_user_turn_completed`. For `on_enter` and `on_exit` in a
    handoff the time begins anew with each speech that they asked for."""
    max_tool_steps: int = 5
    """Steps of tool calls in one answer; then the model has to answer without tools."""

    def __post_init__(self) -> None:
        for name in ("llm_first_token", "llm_stall", "tts_first_byte", "tts_stall", "stt_stage", "hook_timeout"):
            check_number(name, getattr(self, name), above=0, unit="s")
        check_whole("max_tool_steps", self.max_tool_steps, at_least=0)
