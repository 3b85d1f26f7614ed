"""JobContext by itself: the ends of a job, without a worker and without a room."""

from __future__ import annotations

import anyio
from livekit import rtc

from vivavoce.agents.worker.job import JobControl, JobInfo


async def test_a_disconnect_for_a_reason_that_the_sdk_has_no_name_for_ends_the_job() -> None:
    async with anyio.create_task_group() as tasks:
        control = JobControl(JobInfo(id="AJ_1", room="r"), url="", token="", shared={}, tasks=tasks)
        control.context.room.emit("disconnected", 99)
        with anyio.fail_after(1):
            await control.wait_ended()
    assert control.context.reason == "room disconnected: REASON_99"


async def test_a_known_disconnect_reason_is_named() -> None:
    async with anyio.create_task_group() as tasks:
        control = JobControl(JobInfo(id="AJ_1", room="r"), url="", token="", shared={}, tasks=tasks)
        control.context.room.emit("disconnected", rtc.DisconnectReason.ROOM_DELETED)
        with anyio.fail_after(1):
            await control.wait_ended()
    assert control.context.reason == "room disconnected: ROOM_DELETED"
