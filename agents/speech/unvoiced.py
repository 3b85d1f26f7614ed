"""Unvoiced: the texts of one speech for which its voice yields no audio and no error; reports them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from vivavoce.pipelines.core.errors import UnvoicedError

if TYPE_CHECKING:
    from vivavoce.agents.audio.heard import HeardText
    from vivavoce.agents.core.context import SessionContext
    from vivavoce.agents.turn_records.turn_record import TurnRecordBuilder


class Unvoiced:
    """Reports each such text by an `error` event once a part of the speech has audio. Without any audio the speech
    fails, and that failure is the report.
    """

    def __init__(self, session: SessionContext, record: TurnRecordBuilder) -> None:
        self._session = session
        self._record = record
        self._unreported: list[UnvoicedError] = []
        self._is_voiced = False
        self.is_in_step = False
        """Whether the present step has such a text."""

    def begin_step(self) -> None:
        """Begin a step of the speech."""
        self.is_in_step = False

    def note(self, error: UnvoicedError) -> None:
        """Note a text for which the voice has yielded no audio."""
        self.is_in_step = True
        self._record.left_out(error.text)
        self._unreported.append(error)
        if self._is_voiced:
            self.report()

    def voiced(self) -> None:
        """Note that the speech has audio."""
        if not self._is_voiced:
            self._is_voiced = True
            self.report()

    def judge_step(self, heard: HeardText, *, provider: str, component: str) -> None:
        """Judge a step that ended without audio: its whole text is unvoiced, if it has something to pronounce.

        Args:
            component: As in `UnvoicedError`.
        """
        text = heard.text.strip()
        if not self.is_in_step and any(map(str.isalnum, text)):
            heard.leave_out(text)
            self.note(UnvoicedError(text, provider=provider, component=component, tries=1))

    def check(self) -> None:
        """Check a speech that is over.

        Raises:
            UnvoicedError: It has no audio, though it had something to say.
        """
        errors, self._unreported = self._unreported, []
        if len(errors) == 1:
            raise errors[0]
        if errors:
            text = " ".join(error.text for error in errors)
            first = errors[0]
            raise UnvoicedError(text, provider=first.provider, component=first.component, tries=first.tries)

    def report(self) -> None:
        """Report the errors that are not reported yet."""
        errors, self._unreported = self._unreported, []
        for error in errors:
            self._session.report_error(error, error.component)
