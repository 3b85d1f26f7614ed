"""Life: one session from start to close, with a caller and an application that do random things, and its laws."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from math import ceil
from pathlib import Path
from random import Random

import anyio
import pytest
from anyio.to_thread import run_sync

from kit.soak.desk import TOOL_TIMEOUT, Desk
from kit.soak.ledger import Ledger, check_trace
from kit.soak.providers import PROVOKED, Mood, MoodyLLM, MoodyTTS
from vivavoce.agents import (
    AgentSession,
    AgentState,
    EndpointingOptions,
    InterruptionOptions,
    SessionOptions,
    SpeechLimits,
    UserState,
    WakeUp,
)
from vivavoce.agents.records import CloseReport
from vivavoce.agents.testing import Caller
from vivavoce.agents.transports.local import LocalTransport
from vivavoce.agents.transports.options import RoomOptions
from vivavoce.pipelines import CascadingPipeline
from vivavoce.pipelines.cascading import CascadingOptions
from vivavoce.pipelines.core.clock import LoopClock
from vivavoce.pipelines.core.errors import SessionClosedError
from vivavoce.pipelines.media.frame import FRAME_SECONDS
from vivavoce.pipelines.testing import ScriptedSTT, ScriptedVAD
from vivavoce.pipelines.testing.scripted_stt import ScriptedSTTStream

ENDS = {
    "question": 56,
    "close": 14,
    "leaves": 6,
    "room": 5,
    "deaf": 4,
    "gives up": 4,
    "away": 4,
    "not started": 4,
    "cut start": 3,
}
"""How a session ends, and of a hundred how many: after a last question that must be answered, or in the middle."""
REASONS = {
    "leaves": "participant_left",
    "room": "room_closed",
    "deaf": "error",
    "gives up": "error",
    "away": "user_away",
}

ANSWER_LIMIT = 20.0
"""Seconds until the last question is answered: first come the queue and each provider's limit."""
REST_LIMIT = 10.0
"""Seconds until both sides are silent and no answer is due."""
AWAY_LIMIT = 30.0
"""Seconds until a silent caller is hung up on: first an answer with all its tools comes to its end."""
CLOSE_TIMEOUT = 2.0
GRACE = 0.6
LOST_CONNECTION = "the script cut the connection"

LOSSES_AT_MOST = len(CascadingOptions().stt_reconnect.waits)
"""Streams in a row, none of which reported anything, that the session may lose; it closes with one more."""

REST = [(AgentState.IDLE, UserState.IDLE), (AgentState.IDLE, UserState.AWAY)]

ACTIONS = {
    "says": 30, "noise": 10, "mhm": 5, "nothing": 3, "types": 6, "say": 8, "protected": 3, "reply": 6, "cuts in": 4,
    "interrupt": 5, "force": 2, "commit": 3, "clear": 1, "mute": 2, "goes": 2, "stt fails": 3, "streams": 3,
    "hands off": 2,
}  # fmt: skip


class Life:
    """One session of a soak.

    Args:
        seed: Decides all that is decided here.
        traces: Folder for the trace; a good life leaves none.
    """

    def __init__(self, seed: str, traces: Path) -> None:
        self.rng = Random(seed)
        self.end = self.rng.choices(list(ENDS), list(ENDS.values()))[0]
        self.mood = Mood(self.rng, always_fails=self.end == "gives up")
        self.clock = LoopClock()
        self.stt = ScriptedSTT()
        self.caller = Caller(self._recognise)
        self.transport = LocalTransport(self.clock, is_recording=False)
        self.session = AgentSession[None](
            Desk(self.mood, may_not_start=self.end == "not started"),
            CascadingPipeline(stt=self.stt, llm=MoodyLLM(self.mood), tts=MoodyTTS(self.mood), vad=ScriptedVAD()),
            wake_up=self._wake_up(),
            options=SessionOptions(
                capture_content=True,
                endpointing=EndpointingOptions(mode=self.rng.choice(["fixed", "fixed", "dynamic"])),
                interruption=InterruptionOptions(mode=self.rng.choice(["pause", "pause", "immediate"])),
                speech=SpeechLimits(
                    llm_first_token=0.8, llm_stall=0.8, tts_first_byte=0.6, tts_stall=0.6, hook_timeout=1.0
                ),
                tool_timeout=TOOL_TIMEOUT,
                close_timeout=CLOSE_TIMEOUT,
                max_errors=2 if self.end == "gives up" else 1000,
                trace_path=traces,
            ),
            id="soak_" + seed.replace("/", "_"),
        )
        if self.rng.random() < 0.5:
            self.session.on_wake_up = self._wake
        self.trace_path = traces / f"{self.session.id}.jsonl"
        self._failed_stream: ScriptedSTTStream | None = None
        self._telling_stream: ScriptedSTTStream | None = None
        self._mute_losses = 0
        self._guessed_on: dict[str, ScriptedSTTStream] = {}
        self._began_at = 0.0
        self._free_from = self._guess_until = 0.0
        self._ledger = Ledger(self.session, self.mood)

    def _wake_up(self) -> WakeUp | None:
        if self.end == "away":
            return WakeUp(after=0.5, repeat=self.rng.randint(1, 2), then="close")
        return WakeUp(after=0.5, repeat=self.rng.randint(1, 3), backoff=1.5) if self.rng.random() < 0.5 else None

    async def _wake(self) -> None:
        if not self.mood.is_calm and self.rng.random() < 0.1:
            self.mood.provoked["on_wake_up"] += 1
            raise RuntimeError(PROVOKED)
        await self.session.say("Are you still there?")

    async def live(self) -> None:
        """Run from start to close.

        Raises:
            AssertionError: A law is broken.
        """
        self._began_at = self.clock.now()
        self.caller.begin(self.transport, self.clock)
        try:
            report = await self._through()
        finally:
            self.caller.stop()
            with anyio.CancelScope(shield=True):  # bounded by close_timeout
                await self.session.close()
        assert self.caller.error is None, repr(self.caller.error)
        self._ledger.check_end(report, REASONS.get(self.end), CLOSE_TIMEOUT + 1.0)
        self._ledger.check_speeches()
        self._ledger.check_words(all_of_them=self.end == "question")
        self._ledger.check_errors()
        if self.end != "cut start" or self.trace_path.exists():  # it may be cut before its task has begun
            await run_sync(check_trace, self.trace_path)

    async def _through(self) -> CloseReport:
        options = RoomOptions(participant_grace=GRACE)
        if self.end == "not started":
            with pytest.raises(RuntimeError, match=PROVOKED):
                await self.session.start(self.transport, room_options=options)
            return await self.session.close()
        if self.end == "cut start":
            with anyio.move_on_after(self.rng.choice([0.0, 0.001, 0.02, 0.5])):
                await self.session.start(self.transport, room_options=options)
            return await self.session.close()
        await self.session.start(self.transport, room_options=options)
        await self._act_for(self.rng.uniform(2.0, 12.0))
        self._check_open()
        match self.end:
            case "question":
                await self._ask_last_question()
            case "leaves":
                self.transport.drop(self.caller.identity)
            case "room":
                self.transport.end("the soak ends it")
            case "deaf":
                await self._until_hearing()  # a stream lost just now has its successor before none can be had
                self.stt.fail_open(*[self.mood.error("stt")] * 20)
                self._lose_stream()
            case "gives up":
                until = self._now + AWAY_LIMIT  # typing while the caller speaks only adds to one turn
                while not self._is_closing and self._now < until:
                    self.session.input.text(self._new_words())
                    await anyio.sleep(2.0)
        if self.end in REASONS:
            with anyio.fail_after(AWAY_LIMIT if self.end == "away" else REST_LIMIT):
                return await self.session.wait_closed()
        return await self.session.close()

    # --- the actions

    @property
    def _now(self) -> float:
        return self.clock.now() - self._began_at

    @property
    def _is_closing(self) -> bool:
        return self.session.agent_state in (AgentState.CLOSING, AgentState.CLOSED)

    async def _act_for(self, seconds: float) -> None:
        until = self._now + seconds
        while self._now < until and not self._is_closing:
            action = self.rng.choices(list(ACTIONS), list(ACTIONS.values()))[0]
            try:
                await self._act(action)
            except SessionClosedError:
                assert self._is_closing
            await anyio.sleep(self.rng.uniform(0.02, 0.9))

    async def _act(self, action: str) -> None:
        session, text = self.session, " ".join(["word"] * self.rng.randint(1, 8))
        match action:
            case "says" | "noise" | "mhm":
                self._sound(action)
            case "nothing":
                if self._now > self._free_from:  # else it would settle a guess that its final then repeats
                    self._recognise("", True, "")
            case "types":
                session.input.text(self._new_words())
            case "say":
                self._ledger.handles.append(session.say(text))
            case "streams":
                self._ledger.handles.append(session.say(_pieces(text)))
            case "protected":
                self._ledger.handles.append(session.say(text, interruptible=False))
            case "reply":
                self._ledger.handles.append(session.reply(text))
            case "cuts in":
                self._ledger.handles.append(session.reply(text, when_busy="interrupt"))
            case "interrupt" | "force":
                await session.interrupt(force=action == "force")
            case "commit" if self._now > self._guess_until:
                session.input.commit_turn()
                # Asked to settle, a recogniser would, which this one does not.
                self._free_from = max(self._free_from, self._now + 1.3)
            case "clear":
                self._ledger.cleared.update(self._ledger.told)
                session.input.clear_turn()
            case "mute":
                session.input.mute()
                await anyio.sleep(0.3)
                session.input.mute(False)
            case "goes" if self._now > self._guess_until:
                self.transport.drop(self.caller.identity)
                await anyio.sleep(GRACE / 3)
                self.transport.join(self.caller.identity)
            case "hands off":
                handoff = session.update_agent(Desk(self.mood))
                if self.rng.random() < 0.5:
                    await handoff
            case "stt fails" if self._is_hearing and (self._has_told or self._mute_losses < LOSSES_AT_MOST):
                self._lose_stream()

    def _sound(self, action: str) -> None:
        start = _on_the_grid(max(self._now + 0.02, self._free_from))
        length = _on_the_grid(self.rng.uniform(0.1, 1.5))
        self._free_from = start + length + 0.3
        if action == "noise":
            self.caller.makes_noise(start, start + length)
            return
        text = "mhm" if action == "mhm" else self._new_words(told=False)
        has_interim = self.rng.random() < 0.5
        # A recogniser that does not name its utterances settles a guess before it hears the next one.
        late = self.rng.choice([-0.1, 0.05, 0.2, 0.2, 0.2 if has_interim else 0.9])
        final_at = max(start, start + length + late)
        self._guess_until = max(self._guess_until, final_at if has_interim else 0.0)
        self._free_from = max(self._free_from, self._guess_until)
        # It guesses at the words once there are some: the VAD, which needs 0.05 s, has reported the speech by then.
        has_interim = has_interim and final_at - start > 0.15
        interims = [(self.rng.uniform(start + 0.12, final_at), text.split()[0])] if has_interim else []
        self.caller.says(text, start, start + length, final_at=final_at, interims=interims)

    def _new_words(self, count: int = 0, *, told: bool = True) -> str:
        new = [f"u{len(self._ledger.words) + number}" for number in range(count or self.rng.randint(1, 4))]
        self._ledger.words += new
        if told:
            self._ledger.told += new
        return " ".join(new)

    def _recognise(self, text: str, is_final: bool, item_id: str) -> None:
        """Tell the recogniser's words, if it has a stream and the session takes them."""
        if not self._is_hearing or self._is_closing:
            return
        first = text.partition(" ")[0]
        if is_final and self._guessed_on.get(first, self.stt.stream) is not self.stt.stream:
            return  # the recogniser broke down in mid-utterance; its guess was settled then
        self._telling_stream = self.stt.stream
        if is_final:
            self.stt.final(text)
            self._ledger.told += [word for word in text.split() if word != "mhm"]
        else:
            self._guessed_on[first] = self.stt.stream
            self.stt.interim(text)

    @property
    def _is_hearing(self) -> bool:
        streams = self.stt.streams
        return bool(streams) and not streams[-1].is_closed and streams[-1] is not self._failed_stream

    @property
    def _has_told(self) -> bool:
        """Whether the newest stream has reported anything: then the next one has all its tries."""
        return self._telling_stream is self.stt.streams[-1]

    def _lose_stream(self) -> None:
        # The session gives a successor all its tries after 5 s too; not counting on that can only spare it a loss.
        self._mute_losses = 0 if self._has_told else self._mute_losses + 1
        self.mood.provoked["stt"] += 1
        self._failed_stream = self.stt.stream
        self.stt.fail()

    async def _until_hearing(self) -> None:
        await _until(
            lambda: self._is_hearing or self._is_closing, REST_LIMIT, lambda: "the recogniser was not opened again"
        )
        self._check_open()

    def _check_open(self) -> None:
        """Nothing that was provoked so far is a reason to close."""
        errors = [(event.source, event.error) for event in self._ledger.errors if not event.is_recovered]
        assert self.end in ("away", "gives up") or not self._is_closing, f"closed by itself, after {errors}"

    async def _ask_last_question(self) -> None:
        self.mood.is_calm = True
        await anyio.sleep(max(0.0, self._free_from - self._now) + 1.0)  # the last words' finals have come
        await self._until_hearing()
        question = self._new_words(3, told=False)
        start = _on_the_grid(self._now + 0.05)
        stream, heard = self.stt.stream, self.stt.stream.pushed_seconds
        self.caller.says(question, start, start + 0.8, final_at=start + 0.9)
        await _until(
            lambda: any(question in done.record.user_text for done in self._ledger.completed),
            ANSWER_LIMIT,
            lambda: f"the last question was not answered: {self._states}",
        )
        heard = stream.pushed_seconds - heard
        assert heard > 0.7, f"the recogniser got {heard:.2f} s of audio from a question of 0.8 s"
        answered = next(done.record for done in self._ledger.completed if question in done.record.user_text)
        assert (answered.outcome, bool(answered.heard_text)) == ("completed", True), answered.outcome
        await _until(
            lambda: self._states in REST,
            REST_LIMIT,
            lambda: f"no rest after the last answer: {self._states}",
        )

    @property
    def _states(self) -> tuple[AgentState, UserState]:
        return self.session.agent_state, self.session.user_state


async def _until(holds: Callable[[], bool], limit: float, problem: Callable[[], str]) -> None:
    """Poll every 50 ms: the condition is no single event."""
    began = anyio.current_time()
    while not holds():
        assert anyio.current_time() - began < limit, f"{problem()} within {limit:g} s"
        await anyio.sleep(0.05)


async def _pieces(text: str) -> AsyncIterator[str]:
    for word in text.split():
        await anyio.sleep(0.02)
        yield word + " "


def _on_the_grid(seconds: float) -> float:
    """Return the next multiple of a frame's length: sounds of a scripted caller begin and end there."""
    return ceil(round(seconds / FRAME_SECONDS, 6)) * FRAME_SECONDS
