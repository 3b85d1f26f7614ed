"""What LiveKit Agents' session calls by another name: a hint for whoever comes from there, and nothing more."""

from __future__ import annotations

OURS: dict[str, str] = {
    "generate_reply": "reply(instructions)",
    "aclose": "close()",
    "drain": "close(), after `await session.say(…)` what is to be heard",
    "shutdown": "close(), or leave() to leave the room too",
    "commit_user_turn": "input.commit_turn()",
    "clear_user_turn": "input.clear_turn()",
    "current_agent": "agent",
    "run": "user() of vivavoce.agents.testing.SessionHarness",
}
"""LiveKit's name, and what does that here."""


def unknown_attribute(owner: object, name: str) -> AttributeError:
    """Return the error of a name that the session has not."""
    ours = OURS.get(name)
    hint = f"; LiveKit's {name} is {ours} here" if ours else ""
    return AttributeError(f"{type(owner).__name__!r} object has no attribute {name!r}{hint}", name=name, obj=owner)
