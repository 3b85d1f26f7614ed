"""A telephone's call on Twilio's wire to a server of ours: the telephone line is Twilio's own side."""

from __future__ import annotations

from collections.abc import Awaitable, Callable

import anyio

from kit.call_server import Served
from kit.line.sip_line import Leg
from kit.telephone import Twilio
from vivavoce.pipelines.media import g711


def on_twilio(server: Served, calls: list[tuple[Leg, Twilio]]) -> Callable[[Leg], Awaitable[None]]:
    """Return a function that holds a call of the line: it asks the webhook, opens the stream, answers the telephone.

    Args:
        calls: Gets both ends of each call.
    """

    async def hold(leg: Leg) -> None:
        parameters = await server.parameters(leg.number, leg.called_number)
        async with server.phone(parameters) as vendor, anyio.create_task_group() as tasks:
            calls.append((leg, vendor))
            vendor.on_play = leg.play
            leg.on_audio = lambda pcm: None if vendor.is_over else vendor.send(g711.encode(pcm, "mulaw"))
            leg.on_key = vendor.press
            await leg.answer()

            async def hang_up_with_telephone() -> None:
                await leg.over.wait()
                vendor.hang_up()

            tasks.start_soon(hang_up_with_telephone)
            await vendor.over.wait()
            tasks.cancel_scope.cancel()

    return hold
