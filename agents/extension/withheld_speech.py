"""WithheldSpeech: which extensions of a session let no speech of the agent begin."""

from __future__ import annotations

from vivavoce.agents.core.context import SessionContext
from vivavoce.agents.turn.inputs import SpeechWithheld


class WithheldSpeech:
    """Tells the turn machine when the first extension withholds speech, and when the last one lets it go."""

    def __init__(self, context: SessionContext) -> None:
        self._context = context
        self._keys: set[str] = set()

    def note(self, key: str, is_withheld: bool) -> None:
        """Note whether that extension lets no speech begin."""
        was_withheld = bool(self._keys)
        if is_withheld:
            self._keys.add(key)
        else:
            self._keys.discard(key)
        if bool(self._keys) != was_withheld:
            self._context.inbox.post(SpeechWithheld(is_withheld))
