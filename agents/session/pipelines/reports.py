"""PipelineReports: what a pipeline tells beside the turn machine's inputs: usage, replaced connections, late words."""

from __future__ import annotations

import logging

from vivavoce.agents.core.context import SessionContext
from vivavoce.agents.events import ConnectionReplaced
from vivavoce.agents.history.history import HistoryControl
from vivavoce.agents.records import UsageRecord
from vivavoce.pipelines.events import AgentTranscript, PipelineEvent, PipelineFailed, PipelineReplaced, PipelineUsage

logger = logging.getLogger(__name__)


class PipelineReports:
    """Takes a pipeline's events for a session."""

    def __init__(self, context: SessionContext, history: HistoryControl) -> None:
        self._context = context
        self._history = history

    def take(self, event: PipelineEvent) -> None:
        """Take one event. Synchronous; decides nothing. Failures are the pipeline room's matter."""
        if isinstance(event, PipelineUsage):
            self._context.log.add_usage(
                UsageRecord(
                    llm_input_tokens=event.input_tokens,
                    llm_output_tokens=event.output_tokens,
                    llm_cached_tokens=event.cached_tokens,
                )
            )
        elif isinstance(event, PipelineReplaced):
            component, gap, reason = event.component, event.gap, event.reason
            logger.info("The connection of the %s was replaced (%s), with a gap of %.3f s", component, reason, gap)
            self._context.log.note(ConnectionReplaced, component=component, gap=gap, reason=reason)
        elif isinstance(event, AgentTranscript):
            self._context.inbox.call(lambda: self._history.settle_cut(event.item_id, event.text))
        elif not isinstance(event, PipelineFailed):
            self._context.inbox.post(event)
