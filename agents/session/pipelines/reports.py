"""PipelineReports: what a pipeline tells beside the turn machine's inputs: usage, replaced connections, late words."""

from __future__ import annotations

import logging
from collections.abc import Callable

from vivavoce.agents.core.log import SessionLog
from vivavoce.agents.events import ConnectionReplaced
from vivavoce.agents.history.history import SessionHistory
from vivavoce.agents.records import UsageRecord
from vivavoce.agents.turn import inputs as i
from vivavoce.pipelines.events import AgentTranscript, PipelineEvent, PipelineFailed, PipelineReplaced, PipelineUsage

logger = logging.getLogger(__name__)


class PipelineReports:
    """Takes a pipeline's events for a session.

    Args:
        post: Enqueues what the turn machine decides on.
        run_soon: Has the session's loop do something, behind what it has been told before.
    """

    def __init__(
        self,
        log: SessionLog,
        history: SessionHistory,
        *,
        post: Callable[[i.TurnInput], None],
        run_soon: Callable[[Callable[[], None]], None],
    ) -> None:
        self._log = log
        self._history = history
        self._post = post
        self._run_soon = run_soon

    def take(self, event: PipelineEvent) -> None:
        """Take one event. Synchronous; decides nothing. Failures are the pipeline room's matter."""
        if isinstance(event, PipelineUsage):
            self._log.add_usage(
                UsageRecord(
                    llm_input_tokens=event.input_tokens,
                    llm_output_tokens=event.output_tokens,
                    llm_cached_tokens=event.cached_tokens,
                )
            )
        elif isinstance(event, PipelineReplaced):
            component, gap, reason = event.component, event.gap, event.reason
            logger.info("The connection of the %s was replaced (%s), with a gap of %.3f s", component, reason, gap)
            self._log.note(ConnectionReplaced, component=component, gap=gap, reason=reason)
        elif isinstance(event, AgentTranscript):
            self._run_soon(lambda: self._history.settle_cut(event.item_id, event.text))
        elif not isinstance(event, PipelineFailed):
            self._post(event)
