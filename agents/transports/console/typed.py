"""TypedTransport: a person who types at this machine, in the console's form of a `TextTransport`."""

from __future__ import annotations

from collections.abc import Callable

from vivavoce.agents.transports.console.transport import WHO
from vivavoce.agents.transports.text import TextTransport
from vivavoce.pipelines.io import PartMessage, TranscriptSegment


class TypedTransport(TextTransport):
    """A person who types at this machine, present from the start. The view shows the words by the session's events."""

    identity = WHO

    def __init__(self) -> None:
        super().__init__()
        self._show: Callable[[str], None] | None = None

    def show_parts(self, show: Callable[[str], None]) -> None:
        """Call `show` with each part of a rich reply as text; without it parts are not shown."""
        self._show = show

    def send_part(self, message: PartMessage) -> None:
        if self._show is not None and message.plain:
            self._show(message.plain)

    @property
    def wants_turn_records(self) -> bool:
        return False

    def send_transcript(self, segment: TranscriptSegment) -> None:
        """Show nothing: the view has the session's events."""

    def type(self, text: str) -> None:
        """Enter a typed text of the person; without a session it is lost."""
        if self.is_open:
            self.send(text)
