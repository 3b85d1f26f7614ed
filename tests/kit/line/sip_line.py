"""A telephone line on loopback: it takes and places SIP calls, as a vendor of telephone numbers does."""

from __future__ import annotations

import asyncio
import contextlib
import math
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import Any

import anyio
from aiosipua import CallSession, IncomingCall, SdpMessage, SipRequest, SipTransport, SipUAC, SipUAS, build_sdp
from anyio.abc import TaskGroup

from kit.limits import LIMIT
from kit.line.baresip import RATE, free_ports

FRAME_SECONDS = 0.02
SILENCE = bytes(2 * RATE // 50)
LATE = 0.03
"""Seconds without a sound for the telephone after which the line sends silence."""
MOST_LATE = 0.1
"""Seconds of silence that are sent at once."""
CODECS = [0, 8]
"""RTP's payload types of G.711: mu-law and A-law."""


class Leg:
    """One call of a telephone: its audio, its keys, its end.

    Args:
        number: The telephone's user.
        called_number: The user that was called.
        media: Its RTP session.
        accept: Answers the call; None where the telephone has answered it.
        hang_up: Ends the call from our side, or refuses it.
        refer: Asks the telephone to call another address.
    """

    def __init__(
        self,
        number: str,
        called_number: str,
        media: CallSession,
        *,
        accept: Callable[[], object] | None,
        hang_up: Callable[[], object],
        refer: Callable[[str], object],
    ) -> None:
        self.number, self.called_number = number, called_number
        self._media, self._accept, self._hang_up, self._refer = media, accept, hang_up, refer
        self.on_audio: Callable[[bytes], None] = lambda _: None
        """Called with each 20 ms that are said into the telephone, 16-bit PCM."""
        self.on_key: Callable[[str], None] = lambda _: None
        self.progress: list[int] = []
        """SIP codes that the telephone has reported of its last transfer."""
        self._is_answered = False
        self.is_over = False
        self.over = anyio.Event()
        self._changed = anyio.Event()
        self._timestamp = 0
        self._ends_at = 0.0
        media.on_audio = lambda pcm, _: self.on_audio(pcm)
        media.on_dtmf = lambda key, _: self.on_key(key)

    async def answer(self) -> None:
        """Answer the call, where nobody has: from now on there is audio."""
        if self._is_answered:
            return
        self._is_answered = True
        await self._media.start()
        if self._accept is not None:
            self._accept()

    def play(self, pcm: bytes) -> None:
        """Let the telephone hear 20 ms now."""
        self._ends_at = max(self._ends_at, anyio.current_time())
        self._send(pcm)

    def press(self, key: str) -> None:
        """Send a key to the telephone, as an event of RTP."""
        self._media.send_dtmf(key)

    async def transfer(self, address: str) -> int:
        """Ask the telephone to call an address; return the SIP code that this call got."""
        self.progress.clear()
        self._refer(address)
        with anyio.fail_after(LIMIT):
            while not any(code >= 200 for code in self.progress):
                await self._changed.wait()
        return self.progress[-1]

    def note_progress(self, code: int) -> None:
        """Take a report of the telephone on its transfer."""
        self.progress.append(code)
        self._note()

    async def settle(self) -> None:
        """Send half a second more: a telephone that hangs up drops the audio that it has not played yet."""
        with anyio.fail_after(LIMIT):
            end = self._timestamp + RATE // 2
            while self._timestamp < end:
                await self._changed.wait()

    def hang_up(self) -> None:
        """End the call from our side."""
        if not self.is_over:
            self._hang_up()
            self.end()

    def end(self) -> None:
        """Note that the call is over."""
        self.is_over = True
        self.over.set()

    async def close(self) -> None:
        """Close its RTP session."""
        await self._media.close()

    async def fill(self) -> None:
        """Send silence where nothing is played, as lines do, to the end of the call."""
        while not self.is_over:
            await anyio.sleep(FRAME_SECONDS / 2)
            self._ends_at = max(self._ends_at, anyio.current_time() - MOST_LATE)
            while anyio.current_time() > self._ends_at + LATE:
                self._send(SILENCE)

    def _send(self, pcm: bytes) -> None:
        self._ends_at += FRAME_SECONDS
        if not self.is_over:
            self._media.send_audio_pcm(pcm, self._timestamp)
            self._timestamp += len(pcm) // 2
            self._note()

    def _note(self) -> None:
        self._changed.set()
        self._changed = anyio.Event()


class SipLine:
    """The line.

    Args:
        tasks: Run the calls.
    """

    def __init__(self, tasks: TaskGroup) -> None:
        self.port = free_ports(1)
        self._tasks = tasks
        self._transport = _Udp(("127.0.0.1", self.port))
        self._uas = SipUAS(self._transport)
        self._uac = SipUAC(self._transport)
        self._uas.uac = self._uac  # without it no answer to our own calls is seen
        self._uas.on_invite = self._take
        self._uas.on_bye = self._end
        self._uas.on_cancel = lambda request, _: self._end(None, request)
        self._uas.on_reinvite = self._renew
        self._uas.on_transfer_progress = lambda call_id, code, _: self._legs[call_id].note_progress(code)
        self._legs: dict[str, Leg] = {}
        self._invited, self._to_hold = anyio.create_memory_object_stream[IncomingCall](math.inf)
        self.on_call: Callable[[Leg], Awaitable[None]] | None = None
        """Holds each call that a telephone makes, from its first ring to its end."""
        self.directions: list[str] = []
        """The audio's directions that telephones have asked for in the middle of a call."""

    def address(self, user: str) -> str:
        """The address of a user, for telephones."""
        return f"sip:{user}@127.0.0.1:{self.port}"

    async def open(self) -> None:
        await self._uas.start()
        self._tasks.start_soon(self._hold_calls)

    async def close(self) -> None:
        self._invited.close()
        for leg in self._legs.values():
            leg.hang_up()
        await self._uas.stop()

    async def call(self, address: str, number: str, *, ringing_timeout: float = LIMIT) -> Leg:
        """Call a telephone, and return once it has answered.

        Args:
            address: Of the telephone, as `Baresip.address`.
            number: The user that calls.
        Raises:
            RuntimeError: It refused; the text has the SIP code.
            TimeoutError: It rang on; the call is given up.
        """
        rtp, telephone = free_ports(), ("127.0.0.1", int(address.rpartition(":")[2]))
        offer = build_sdp("127.0.0.1", rtp, payload_type=0, codec_name="PCMU")
        call = self._uac.send_invite(self.address(number), address, telephone, sdp_offer=offer)
        try:
            await call.wait_answered(ringing_timeout)
        except TimeoutError:
            call.cancel(self._uac)
            raise
        assert call.sdp_answer is not None
        leg = Leg(
            number,
            _user(address),
            _media(rtp, call.sdp_answer),
            accept=None,
            hang_up=lambda: call.hangup(self._uac),
            refer=lambda to: self._uac.send_refer(call.dialog, to, telephone),
        )
        await leg.answer()
        self._legs[call.call_id] = leg
        self._tasks.start_soon(self._hold, leg, None)
        return leg

    # --- inside

    def _take(self, call: IncomingCall) -> None:
        self._invited.send_nowait(call)  # a callback of the loop starts no task

    async def _hold_calls(self) -> None:
        async with self._to_hold:
            async for call in self._to_hold:
                leg = self._ringing(call)
                self._tasks.start_soon(self._hold, leg, self.on_call)

    def _ringing(self, call: IncomingCall) -> Leg:
        assert call.sdp_offer is not None
        media = _media(free_ports(), call.sdp_offer)
        leg = Leg(
            _user(call.caller),
            _user(call.callee),
            media,
            accept=lambda: call.accept(media.sdp_answer),
            hang_up=lambda: call.reject(480) if call.hangup() is None else None,
            refer=lambda to: self._uac.send_refer(call.dialog, to, call.source_addr),
        )
        self._legs[call.call_id] = leg
        call.ringing()
        return leg

    async def _hold(self, leg: Leg, hold: Callable[[Leg], Awaitable[None]] | None) -> None:
        try:
            async with anyio.create_task_group() as tasks:
                tasks.start_soon(leg.fill)
                if hold is not None:
                    await hold(leg)
                    leg.hang_up()
                await leg.over.wait()
        finally:
            with anyio.CancelScope(shield=True):
                leg.hang_up()
                await leg.close()

    def _renew(self, call: IncomingCall) -> None:
        """Agree to another direction of the audio."""
        assert call.sdp_offer is not None
        assert call.sdp_offer.audio is not None
        self.directions.append(call.sdp_offer.audio.direction)
        call.accept(call.sdp_answer)

    def _end(self, _: Any, request: SipRequest) -> None:
        if (leg := self._legs.get(request.call_id or "")) is not None:
            leg.end()


class _Udp(SipTransport):
    """aiosipua's own one fails an assertion on Python 3.11, whose datagram transports have another class."""

    def __init__(self, local_addr: tuple[str, int]) -> None:
        super().__init__(local_addr=local_addr)
        self._socket: asyncio.DatagramTransport | None = None

    async def start(self) -> None:
        loop = asyncio.get_running_loop()
        self._socket, _ = await loop.create_datagram_endpoint(
            lambda: _Datagrams(self._dispatch), local_addr=self.local_addr
        )

    def send(self, message: Any, addr: tuple[str, int]) -> None:
        if self._socket is not None:
            self._socket.sendto(bytes(message), addr)

    async def stop(self) -> None:
        if self._socket is not None:
            self._socket.close()


class _Datagrams(asyncio.DatagramProtocol):
    def __init__(self, take: Callable[[bytes, tuple[str, int]], None]) -> None:
        self._take = take

    def datagram_received(self, data: bytes, addr: tuple[str, int]) -> None:
        self._take(data, addr)


def _media(port: int, offer: SdpMessage) -> CallSession:
    return CallSession("127.0.0.1", port, offer, supported_codecs=CODECS, jitter_prefetch=0)


def _user(uri: str) -> str:
    """Return the user of an address such as `"Alice" <sip:alice@127.0.0.1>;tag=1`."""
    return uri.partition("sip:")[2].partition("@")[0]


@asynccontextmanager
async def sip_line() -> AsyncIterator[SipLine]:
    """Open a line."""
    async with anyio.create_task_group() as tasks, contextlib.AsyncExitStack() as stack:
        line = SipLine(tasks)
        await line.open()
        stack.push_async_callback(line.close)
        stack.callback(tasks.cancel_scope.cancel)
        yield line
