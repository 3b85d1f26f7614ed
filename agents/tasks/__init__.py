"""Tasks: sub-dialogues with a typed result. `task` has `AgentTask`; the ready ones are in `ready`."""

from __future__ import annotations

from typing import TYPE_CHECKING

from vivavoce.pipelines.core.lazy import lazy_names

if TYPE_CHECKING:
    from vivavoce.agents.tasks.group import TaskGroup
    from vivavoce.agents.tasks.options import TaskOptions
    from vivavoce.agents.tasks.ready.date_time import GetDateTime
    from vivavoce.agents.tasks.ready.digit_code import GetDigitCode
    from vivavoce.agents.tasks.ready.email import GetEmailAddress
    from vivavoce.agents.tasks.ready.phone import GetPhoneNumber
    from vivavoce.agents.tasks.ready.postal import GetPostalAddress, PostalAddress
    from vivavoce.agents.tasks.ready.yes_no import AskYesOrNo
    from vivavoce.agents.tasks.task import AgentTask
    from vivavoce.pipelines.core.errors import TaskError

_PLACES = {
    "vivavoce.agents.tasks.group": "TaskGroup",
    "vivavoce.agents.tasks.options": "TaskOptions",
    "vivavoce.agents.tasks.ready.date_time": "GetDateTime",
    "vivavoce.agents.tasks.ready.digit_code": "GetDigitCode",
    "vivavoce.agents.tasks.ready.email": "GetEmailAddress",
    "vivavoce.agents.tasks.ready.phone": "GetPhoneNumber",
    "vivavoce.agents.tasks.ready.postal": "GetPostalAddress PostalAddress",
    "vivavoce.agents.tasks.ready.yes_no": "AskYesOrNo",
    "vivavoce.agents.tasks.task": "AgentTask",
    "vivavoce.pipelines.core.errors": "TaskError",
}

__all__ = [
    "AgentTask",
    "AskYesOrNo",
    "GetDateTime",
    "GetDigitCode",
    "GetEmailAddress",
    "GetPhoneNumber",
    "GetPostalAddress",
    "PostalAddress",
    "TaskError",
    "TaskGroup",
    "TaskOptions",
]

if not TYPE_CHECKING:
    __getattr__, __dir__ = lazy_names(__name__, _PLACES)
