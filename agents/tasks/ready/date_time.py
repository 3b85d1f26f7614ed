"""GetDateTime: a date and time, within limits."""

from __future__ import annotations

import datetime as dt

from vivavoce.agents.tasks.options import TaskOptions
from vivavoce.agents.tasks.ready.confirmed import ConfirmedTask
from vivavoce.agents.tools.context import RunContext
from vivavoce.pipelines.core.checks import check_instance
from vivavoce.pipelines.core.clock import LoopClock
from vivavoce.pipelines.core.errors import ConfigurationError, ToolError
from vivavoce.pipelines.llm.tools import function_tool

INSTRUCTIONS = (
    "You collect one date and time from the caller. It is {now} now; work out words such as 'tomorrow' or 'next "
    "friday' from that. Call `give_time` with the date and the time. Ask again if the caller has named only one of "
    "them, or if it is not clear whether the morning or the evening is meant."
)


def spoken_time(moment: dt.datetime) -> str:
    """Return a date and time as it is read back, such as "Friday, 27 November 2026, at 19:30"."""
    return f"{moment:%A}, {moment.day} {moment:%B %Y}, at {moment:%H:%M}"


def checked_time(
    moment: dt.datetime, *, now: dt.datetime, earliest: dt.datetime | None, latest: dt.datetime | None
) -> dt.datetime:
    """Return the moment.

    Raises:
        ToolError: It is over, or outside of the limits; the text has the reason, for the model.
    """
    first = now if earliest is None else max(now, earliest)
    if moment < first:
        raise ToolError(f"{spoken_time(moment)} is too early: the first possible time is {spoken_time(first)}.")
    if latest is not None and moment > latest:
        raise ToolError(f"{spoken_time(moment)} is too late: the last possible time is {spoken_time(latest)}.")
    return moment


class GetDateTime(ConfirmedTask[dt.datetime]):
    """Asks for a date and time in the future; the result is a datetime of the zone of `now`.

    Args:
        earliest, latest: Limits, with a time zone.
        now: The present, with the time zone in which the caller speaks; by default that of this machine.
        question, extra_instructions, confirms, options: As of a `ConfirmedTask`.
    Raises:
        ConfigurationError: A limit, or `now`, has no time zone.
    """

    def __init__(
        self,
        *,
        earliest: dt.datetime | None = None,
        latest: dt.datetime | None = None,
        now: dt.datetime | None = None,
        question: str = "For which date and time?",
        extra_instructions: str = "",
        confirms: bool = True,
        options: TaskOptions | None = None,
    ) -> None:
        for name, moment in (("earliest", earliest), ("latest", latest), ("now", now)):
            check_instance(name, moment, dt.datetime, or_none=True)
            if moment is not None and moment.tzinfo is None:
                raise ConfigurationError(f"need {name} with a time zone, got {moment!r}; such as moment.astimezone()")
        self._now = now or dt.datetime.fromtimestamp(LoopClock().wall(), dt.UTC).astimezone()
        self._earliest, self._latest = earliest, latest
        super().__init__(
            INSTRUCTIONS.format(now=spoken_time(self._now)),
            question=question,
            extra_instructions=extra_instructions,
            confirms=confirms,
            options=options,
        )

    @function_tool
    async def give_time(self, date: dt.date, time: dt.time, context: RunContext) -> str:
        """Take the caller's date and time, or its correction.

        Args:
            date: As YYYY-MM-DD.
            time: As HH:MM, of 24 hours.
        """
        moment = dt.datetime.combine(date, time.replace(tzinfo=None), self._now.tzinfo)
        checked_time(moment, now=self._now, earliest=self._earliest, latest=self._latest)
        return self.heard(moment, context, spoken=spoken_time(moment))
