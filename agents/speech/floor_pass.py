"""FloorPass: the permissions of one speech to generate and to play, given and taken by the turn machine."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from vivavoce.agents.audio.playout import Playout
from vivavoce.agents.audio.utterance import Utterance


class FloorPass:
    """The two permissions of a speech, and the utterance that waits for the second.

    A wait goes on if a permission is given and taken back before the waiting task runs.

    Args:
        on_floor: Called when it gets or loses the floor.
    """

    def __init__(self, on_floor: Callable[[bool], None]) -> None:
        self._on_floor = on_floor
        self._may_generate = asyncio.Event()  # asyncio's: waiting for a set event costs no turn of the loop
        self._may_play = asyncio.Event()
        self._held: tuple[Utterance, Playout] | None = None

    def prepare(self) -> None:
        """Let the speech generate."""
        self._may_generate.set()

    def grant(self) -> None:
        """Give the speech the floor: it may generate and play."""
        self._may_generate.set()
        self._may_play.set()
        self._on_floor(True)
        held, self._held = self._held, None
        if held is not None and not held[0].done.is_set():
            held[1].play(held[0])

    def take_back(self) -> None:
        """Take back both permissions, until they are given again."""
        self._may_generate.clear()
        self._may_play.clear()
        self._on_floor(False)

    def play(self, utterance: Utterance, playout: Playout) -> None:
        """Play the utterance, now or once the speech has the floor."""
        if self._may_play.is_set():
            playout.play(utterance)
        else:
            self._held = utterance, playout

    async def may_generate(self) -> None:
        """Wait for the permission to generate."""
        while not self._may_generate.is_set():
            await self._may_generate.wait()

    async def may_play(self) -> None:
        """Wait for the floor."""
        while not self._may_play.is_set():
            await self._may_play.wait()
