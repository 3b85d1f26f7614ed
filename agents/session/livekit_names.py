"""What LiveKit Agents' session calls by another name: a hint for whoever comes from there, and nothing more."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from difflib import get_close_matches
from functools import wraps
from typing import ParamSpec

P = ParamSpec("P")

OURS: dict[str, str] = {
    "generate_reply": "reply(instructions)",
    "aclose": "close()",
    "drain": "close(), after `await session.say(…)` what is to be heard",
    "shutdown": "close(), or hangup() to disconnect the caller too",
    "commit_user_turn": "input.commit_turn()",
    "clear_user_turn": "input.clear_turn()",
    "current_agent": "agent",
    "run": "user() of vivavoce.agents.testing.SessionHarness",
}
"""LiveKit's name, and what does that here."""


def unknown_attribute(owner: object, name: str) -> AttributeError:
    """Return the error of a name that the session has not, with the one that may be meant."""
    ours = OURS.get(name)
    public = [known for known in dir(owner) if not known.startswith("_")]
    near = get_close_matches(name, public, n=1)
    hint = f"; LiveKit's {name} is {ours} here" if ours else f"; did you mean {near[0]!r}?" if near else ""
    return AttributeError(f"{type(owner).__name__!r} object has no attribute {name!r}{hint}", name=name, obj=owner)


COMPONENTS = ("stt", "llm", "tts", "vad")
"""What LiveKit's session takes, and a pipeline here."""

ARGUMENTS: dict[str, str] = {
    "turn_detection": "pipeline=CascadingPipeline(turn_detector=…)",
    "turn_handling": "options=SessionOptions(endpointing=…, interruption=…)",
    "min_endpointing_delay": "options=SessionOptions(endpointing=EndpointingOptions(min_delay=…))",
    "max_endpointing_delay": "options=SessionOptions(endpointing=EndpointingOptions(max_delay=…))",
    "allow_interruptions": "options=SessionOptions(interruption=InterruptionOptions(enabled=…))",
    "min_interruption_duration": "options=SessionOptions(interruption=InterruptionOptions(min_duration=…))",
    "min_interruption_words": "options=SessionOptions(interruption=InterruptionOptions(min_words=…))",
    "false_interruption_timeout": "options=SessionOptions(interruption=InterruptionOptions(false_timeout=…))",
    "aec_warmup_duration": "options=SessionOptions(interruption=InterruptionOptions(echo_warm_up=…))",
    "preemptive_generation": "options=SessionOptions(preemptive=…)",
    "user_away_timeout": "options=SessionOptions(away_after=…)",
    "max_tool_steps": "options=SessionOptions(speech=SpeechLimits(max_tool_steps=…))",
    "tools": "agent=Agent(tools=…)",
    "mcp_servers": "agent=Agent(mcp_servers=…)",
}
"""What LiveKit's session is made with (livekit-agents 1.8), and where that goes here."""


def explains_livekit_arguments(make: Callable[P, None]) -> Callable[P, None]:
    """Have a session's constructor answer LiveKit's arguments with ours; its signature stays its own."""

    @wraps(make)
    def checked(*args: P.args, **kwargs: P.kwargs) -> None:
        hints = _hints(kwargs)
        if hints:
            raise TypeError(f"AgentSession takes an agent and a pipeline; {'; '.join(hints)}")
        make(*args, **kwargs)

    return checked


def _hints(given: Mapping[str, object]) -> list[str]:
    """Return what to write in place of LiveKit's arguments; nothing where there are none."""
    hints = []
    if components := [name for name in COMPONENTS if name in given]:
        from vivavoce.pipelines.realtime_model.base import RealtimeModel

        taken = ", ".join(f"{name}=…" for name in components)
        ours = f"CascadingPipeline({taken})"
        if isinstance(given.get("llm"), RealtimeModel):
            ours = f"RealtimePipeline({taken.replace('llm=…', 'model=…')})"
        verb = "goes" if len(components) == 1 else "go"
        hints.append(f"LiveKit's {', '.join(components)} {verb} into pipeline={ours} here")
    return hints + [f"LiveKit's {name} is {ours} here" for name, ours in ARGUMENTS.items() if name in given]
