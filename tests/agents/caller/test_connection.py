"""The simulated caller joins a room, or says why it cannot."""

from __future__ import annotations

import socket
from typing import cast

import pytest

from vivavoce.agents.caller.connection import connected
from vivavoce.agents.caller.ears import Ears
from vivavoce.pipelines.core.errors import RoomError

NO_EARS = cast("Ears", None)
"""A caller that is in no room hears nothing."""


@pytest.mark.timeout(30)
async def test_where_no_room_answers_the_error_names_the_remedy() -> None:
    with socket.socket() as closed:
        closed.bind(("127.0.0.1", 0))  # and does not listen
        url = f"ws://127.0.0.1:{closed.getsockname()[1]}"
        with pytest.raises(RoomError) as refused:
            async with connected(url, "a.b.c", NO_EARS):
                pytest.fail("it is not in a room")

    assert str(refused.value) == f"no room answers at {url}; start `vivavoce dev app.py` first, or give --url"
