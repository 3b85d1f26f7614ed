"""Call sites: what the calling code is part of, also in tasks and threads that it starts."""

from __future__ import annotations

import asyncio

import anyio

from vivavoce.agents.core.call_site import CallSite, ToolSite, call_site, call_sites, calling_tool
from vivavoce.agents.core.speech_handle import SpeechControl, SpeechSite, calling_speech, holds_floor


def speech(name: str) -> SpeechControl:
    """Return a speech that has not ended."""
    return SpeechControl(name, "say", interruptible=True, post=lambda event: None)


async def test_a_tool_is_part_of_its_speech_which_does_not_wait_for_it() -> None:
    first = speech("first")

    async def tool() -> None:
        call_site.set(ToolSite("first", "call_1"))
        found = calling_tool()
        assert found is not None
        assert (found.speech_id, found.call_id) == ("first", "call_1")
        assert calling_speech() is first.handle
        assert not holds_floor()
        assert (await asyncio.create_task(in_a_task())) == "call_1"
        assert (await anyio.to_thread.run_sync(in_a_thread)) == "call_1"

    async def in_a_task() -> str:
        return in_a_thread()

    def in_a_thread() -> str:
        found = calling_tool()
        return "" if found is None else found.call_id

    async def run() -> None:
        call_site.set(SpeechSite(first.handle))
        assert holds_floor()
        assert calling_tool() is None
        await asyncio.create_task(tool())

    assert not holds_floor()
    await asyncio.create_task(run())
    assert list(call_sites()) == []


async def test_a_speech_that_is_over_is_no_call_site_and_is_not_kept_by_later_ones() -> None:
    kept: list[CallSite] = []

    async def run(number: int) -> None:
        one = speech(f"speech_{number}")
        site = SpeechSite(one.handle)
        call_site.set(site)
        one.set_outcome("completed")
        assert calling_speech() is None
        kept.append(site)
        if number < 3:
            await asyncio.create_task(run(number + 1))

    await asyncio.create_task(run(0))
    assert [site.outer for site in kept] == [None] * 4
