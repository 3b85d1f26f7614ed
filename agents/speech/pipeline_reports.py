"""PipelineReports: passes the events of a session's pipelines on to the inbox, the log and the history."""

from __future__ import annotations

import logging
from dataclasses import replace
from functools import partial

from vivavoce.agents import events as ev
from vivavoce.agents.core.context import SessionContext
from vivavoce.agents.history.history import HistoryControl
from vivavoce.agents.speech.transcript_stage import TranscriptStage
from vivavoce.agents.turn_records.turn_record import used_tokens
from vivavoce.pipelines.events import (
    AgentTranscript,
    PipelineFailed,
    PipelineReplaced,
    PipelineUsage,
    RemoteReplyStarted,
    UserFinal,
    UserInterim,
)
from vivavoce.pipelines.pipeline import PipelineConnection, PipelineEvent

logger = logging.getLogger(__name__)


class PipelineReports:
    """Takes the events of the pipeline in use, and late ones of the pipelines before.

    Args:
        limit: Seconds that an agent's `stt_stage` may keep a transcript.
    """

    def __init__(self, context: SessionContext, history: HistoryControl, *, limit: float) -> None:
        self._context = context
        self._transcripts = TranscriptStage(context, limit=limit)
        self._history = history

    def take(self, event: PipelineEvent) -> None:
        log, inbox = self._context.log, self._context.inbox
        if isinstance(event, PipelineUsage):
            self._context.add_usage(used_tokens(event), "llm", event.made_by)
        elif isinstance(event, PipelineReplaced):
            component, gap, reason = event.component, event.gap, event.reason
            logger.info("The connection of the %s was replaced (%s), with a gap of %.3f s", component, reason, gap)
            log.note(ev.ConnectionReplaced, component=component, gap=gap, reason=reason)
        elif isinstance(event, AgentTranscript):
            inbox.call(partial(self._history.settle_cut, event.item_id, event.text))
        elif self._context.hold.is_deaf and isinstance(event, UserInterim | UserFinal):
            logger.debug("Words from before the hold are left out")
        elif not isinstance(event, PipelineFailed):
            self._transcripts.take(event)

    def take_late(self, event: PipelineEvent, connection: PipelineConnection) -> None:
        """Take the event of a connection that is no longer in use: its words are past, and it answers no turn."""
        if isinstance(event, RemoteReplyStarted):
            connection.refuse(event.remote_reply_id)
        elif isinstance(event, UserFinal):
            self.take(event if event.item_id else replace(event, is_past=True))
        elif isinstance(event, AgentTranscript | PipelineUsage):
            self.take(event)

    def leave_recogniser(self) -> None:
        """Note that another recogniser hears from now on: waiting transcripts are of the recogniser before."""
        self._transcripts.leave_recogniser()

    def failed(self, event: PipelineFailed) -> None:
        """Report an error that does not end the session."""
        source, report = event.component or "pipeline", self._context.report_error
        self._context.inbox.call(partial(report, event.error, source, is_recovered=True))
