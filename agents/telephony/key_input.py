"""KeyInput: the keys that the caller of one session presses, as entries."""

from __future__ import annotations

from dataclasses import dataclass, field

import anyio

from vivavoce.agents.events import KeyPressed, KeysEntered
from vivavoce.agents.extension.extension import Host
from vivavoce.agents.telephony.collector import EnteredKeys, KeyCollector
from vivavoce.agents.telephony.key_entry import KeyEntry
from vivavoce.pipelines.core.clock import TimerHandle
from vivavoce.pipelines.core.errors import SessionError


@dataclass(slots=True, eq=False)
class _Asked:
    """An entry that the application waits for."""

    collector: KeyCollector
    entered: EnteredKeys = EnteredKeys("", "none")
    is_over: anyio.Event = field(default_factory=anyio.Event)


class KeyInput:
    """Collects keys: as the application has asked for them, else as the options say.

    Args:
        host: The session.
        usual: How keys become an entry at any time; None: they do not.
        as_turn: The words by which such an entry is a turn, with `{keys}` in them; "": it is none.
    """

    def __init__(self, host: Host, usual: KeyEntry | None, as_turn: str) -> None:
        self._host = host
        self._context = host.context
        self._as_turn = as_turn
        self._usual = None if usual is None else KeyCollector(usual)
        self._asked: _Asked | None = None
        self._timer: TimerHandle | None = None
        self._context.log.emitter.on(KeyPressed, self._press)

    async def collect(self, entry: KeyEntry, first_within: float) -> EnteredKeys:
        """Wait for one entry.

        Args:
            first_within: Seconds for the first key.
        Raises:
            SessionError: Another one is being waited for.
        """
        if self._asked is not None:
            raise SessionError("collect_keys() waits for one entry at a time, and one is being waited for; await it")
        if self._usual is not None:
            self._usual.drop()
        asked = self._asked = _Asked(KeyCollector(entry, first_by=self._context.clock.now() + first_within))
        self._arm()
        try:
            await asked.is_over.wait()
        finally:
            self._drop(asked)
        return asked.entered

    def end(self) -> None:
        """Take no more keys, and end the wait for an entry: the close begins."""
        self._usual = None
        if self._asked is not None:
            self._asked.is_over.set()
            self._drop(self._asked)
        self._stop_timer()

    def _press(self, event: KeyPressed) -> None:
        collector = self._collector
        is_elsewhere = self._context.live.agent.takes_keys or self._context.hold.is_deaf
        if collector is None or (self._asked is None and is_elsewhere):
            return
        if not collector.has_begun and collector.entry.interrupts:
            self._host.interrupt()
        self._note(collector, collector.press(event.key, self._context.clock.now()))

    def _expire(self) -> None:
        collector = self._collector
        if collector is not None and collector.deadline is not None:  # a loop may be early by its clock's resolution
            self._note(collector, collector.expire(collector.deadline))

    def _note(self, collector: KeyCollector, entered: EnteredKeys | None) -> None:
        asked = self._asked
        if entered is not None and asked is not None and collector is asked.collector:
            asked.entered = entered
            asked.is_over.set()
            self._drop(asked)
        elif entered is not None and self._as_turn and entered.keys:
            self._host.take_text(self._as_turn.replace("{keys}", entered.keys))
        if entered is not None and entered.end != "none":
            self._context.log.note(KeysEntered, keys=entered.keys, end=entered.end)
            self._context.inbox.wake()
        self._arm()

    @property
    def _collector(self) -> KeyCollector | None:
        return self._usual if self._asked is None else self._asked.collector

    def _drop(self, asked: _Asked) -> None:
        """Wait no longer for that entry: the next keys are for the usual one."""
        if self._asked is asked:
            self._asked = None
            self._arm()

    def _arm(self) -> None:
        self._stop_timer()
        collector = self._collector
        if collector is not None and collector.deadline is not None:
            self._timer = self._context.clock.call_at(collector.deadline, self._expire)

    def _stop_timer(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
