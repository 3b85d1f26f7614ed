"""Telephony: `session.telephony`, the telephone of a session as applications use it."""

from __future__ import annotations

import anyio

from vivavoce.agents.extension.extension import Host
from vivavoce.agents.telephony.collector import EnteredKeys
from vivavoce.agents.telephony.key_entry import KEYS, KeyEntry
from vivavoce.agents.telephony.key_input import KeyInput
from vivavoce.agents.telephony.tones import key_tones
from vivavoce.pipelines.core.checks import check_instance, check_number, check_text, shown
from vivavoce.pipelines.core.errors import CapabilityError, ConfigurationError, SessionNotStartedError
from vivavoce.pipelines.io import CallerInfo, Transport

KEY_PAUSE = 0.5
"""Seconds of a "w" among keys, as LiveKit's SIP service counts it."""


class Telephony:
    """Keys of the caller and to the line.

    Args:
        host: The session.
        keys: The keys that its caller presses.
    """

    def __init__(self, host: Host, keys: KeyInput) -> None:
        self._host = host
        self._keys = keys

    @property
    def caller(self) -> CallerInfo | None:
        """The caller as the line names them; None as long as none is there."""
        transport = self._host.context.live.transport
        return None if transport is None else transport.caller

    async def collect_keys(self, entry: KeyEntry | None = None, *, first_within: float = 10.0) -> EnteredKeys:
        """Wait for one entry of the caller, which is then no turn; ask for it before, such as by `say()`.

        The event `keys_entered` comes as well. The close of the session ends the wait, with no keys.

        Args:
            entry: How keys become the entry; None: as `KeyEntry()` says.
            first_within: Seconds for the first key.
        Raises:
            SessionError: The session takes no input now, or another call of this method waits.
            ConfigurationError: An argument is of another kind.
        """
        check_instance("entry", entry, KeyEntry, or_none=True)
        check_number("first_within", first_within, above=0, unit="s")
        self._host.context.check_open()
        return await self._keys.collect(entry or KeyEntry(), first_within)

    async def send_keys(self, keys: str) -> None:
        """Press keys for the other side, such as an automatic menu.

        In a LiveKit room each telephone gets them at once, by a message of the line. Elsewhere the tones are played in
        the agent's own audio, behind the speech that is under way.

        Args:
            keys: 0 to 9, *, #, A to D; a "w" waits for half a second.
        Raises:
            ConfigurationError: There are other characters, or none, or the caller has no telephone.
            CapabilityError: The line needs tones, and the session has no audio.
            SessionError: The session is not in its room, or closes.
            RoomError: The line did not take them.
        """
        pressed = check_text("keys", keys).upper()
        if not pressed.strip("W") or set(pressed) - {*KEYS, "W"}:
            raise ConfigurationError(f"need keys of {KEYS}, and w for a pause, got {shown(keys)}")
        self._host.context.check_open()
        transport = self._transport
        for number, part in enumerate(pressed.split("W")):
            if number:
                await anyio.sleep(KEY_PAUSE)
            if part and not await transport.send_keys(part):
                await self._play(part, transport)

    async def _play(self, keys: str, transport: Transport) -> None:
        caller = transport.caller
        if caller is not None and caller.line == "room":
            raise ConfigurationError("keys need a telephone in the room, and the caller has a LiveKit client; leave it")
        if not self._host.context.live.capabilities.speaks:
            remedy = "give the session a voice, or a line with a message for keys, such as a LiveKit telephone"
            raise CapabilityError(type(transport).__name__, "the tones of keys as audio", remedy)
        await self._host.context.session.say(
            "", audio=key_tones(keys), interruptible=False, add_to_history=False, priority=1
        )

    @property
    def _transport(self) -> Transport:
        transport = self._host.context.live.transport
        if transport is None:
            raise SessionNotStartedError("the session is not in its room yet; call this from on_enter on")
        return transport
