"""SessionSpeaking: the session's calls that make the agent speak, be silent, and hang up."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Sequence

from vivavoce.agents.audio.given_audio import GivenAudio
from vivavoce.agents.core.context import SessionContext
from vivavoce.agents.core.inbox import InterruptedFromThread
from vivavoce.agents.core.speech_handle import SpeechHandle, running_tool_of
from vivavoce.agents.session.checks import checked_reply, checked_say
from vivavoce.agents.session.hang_ups import HangUps
from vivavoce.agents.session.runtime import SessionRuntime
from vivavoce.agents.session.speech_desk import SpeechDesk
from vivavoce.agents.turn import inputs as i
from vivavoce.pipelines.core.checks import check_flag
from vivavoce.pipelines.llm.tools import ToolChoice
from vivavoce.pipelines.media.frame import VideoFrame


class SessionSpeaking:
    """Calls of an `AgentSession`, which makes the parts they use."""

    _context: SessionContext
    _runtime: SessionRuntime
    _speech: SpeechDesk
    _hang_ups: HangUps

    def say(
        self,
        text: str | AsyncIterator[str],
        *,
        audio: GivenAudio | None = None,
        interruptible: bool = True,
        add_to_history: bool = True,
        priority: int = 0,
        when_busy: i.WhenBusy = "queue",
    ) -> SpeechHandle:
        """Speak `text` as it is, without the model. Awaiting the handle means "played out".

        Args:
            text: Whole, or piece by piece: then of at most 100,000 characters, beyond which the speech fails.
            audio: Played instead of a synthesis of `text`, which it says: a frame, an async iterator of frames, or the
                path of a file (WAV; with the extra `audio` any kind). One that turns out broken fails the speech.
            interruptible: Whether the caller's words may cut it.
            priority: Higher is spoken earlier, among what waits.
            when_busy: What to do when somebody has the floor, the caller or the agent: wait, give up, or take it. What
                takes it speaks over the caller.
        Raises:
            SessionNotStartedError, SessionClosedError: It cannot speak now.
            CapabilityError: The pipeline has no voice.
            ConfigurationError: An argument is of another kind, there is no such file, or `text` is not whole where
                `audio` is given.
        """
        request = checked_say(text, audio, add_to_history)
        return self._speech.ask("say", request, interruptible=interruptible, priority=priority, when_busy=when_busy)

    def reply(
        self,
        instructions: str,
        wait_for_playback: bool = True,
        *,
        interruptible: bool = True,
        frames: Sequence[VideoFrame] | None = None,
        tool_choice: ToolChoice | None = None,
        priority: int = 0,
        when_busy: i.WhenBusy | None = None,
    ) -> SpeechHandle:
        """Let the model speak, by `instructions` (for this once) and the history.

        Args:
            wait_for_playback: Whether awaiting the handle means "played out" or only "generated".
            frames: Pictures for the model.
            when_busy: What to do when somebody has the floor: wait, give up, or take it. None: give up while another
                `reply()` runs, wait for the caller and for other speech.
        Raises:
            SessionNotStartedError, SessionClosedError: It cannot speak now.
            CapabilityError: The pipeline makes no replies, or its model does not see.
            ConfigurationError: An argument is of another kind.
        """
        request = checked_reply(instructions, wait_for_playback, frames, tool_choice)
        return self._speech.ask("reply", request, interruptible=interruptible, priority=priority, when_busy=when_busy)

    def interrupt(self, *, force: bool = False) -> Awaitable[None]:
        """Stop what the agent is saying and drop what waits, up to the first protected speech.

        It acts when called; awaiting it means that the audio has stopped. Nothing to interrupt is fine. In a thread,
        such as a sync tool's, it acts too, but there it cannot be awaited.

        Answers that wait for their tools are cut too; tools without `cancel_on_interrupt` run on, and a late reply
        tells what they came to. Called in a tool it means what else sounds, such as a filler: the answer that waits for
        this tool goes on, unless words before the call still sound, which end it. `RunContext.speech.interrupt()` does.
        Called in a hook of a turn it means what that hook has said, and the answer to the turn goes on.

        Args:
            force: Stop protected speech too.
        Raises:
            SessionNotStartedError, SessionClosedError: There is nothing to interrupt now.
            ConfigurationError: `force` is no bool.
        """
        check_flag("force", force)
        self._context.check_open()
        hook = self._context.hooks.here("turn hook")
        request = i.InterruptRequested(
            force=force, from_tool_of=running_tool_of.get(), hook_of="" if hook is None else hook.answer_id
        )
        if self._context.inbox.is_here:
            return self._runtime.interrupt_all(request)
        self._context.inbox.post(request)
        return InterruptedFromThread()

    def hangup(self, *, after_speech: bool = True) -> Awaitable[None]:
        """Disconnect the caller. The session then closes, unless `RoomOptions.close_on_disconnect` is off.

        It acts when called; awaiting it means that the caller is disconnected. In a LiveKit room it needs the server's
        API: a worker's job has the keys, elsewhere `LIVEKIT_URL`, `LIVEKIT_API_KEY` and `LIVEKIT_API_SECRET` give them.

        Args:
            after_speech: Whether the caller first hears what was said before this call; of the speech whose tool calls
                it, that is the words before the tool's call. False cuts all speech off.
        Raises:
            SessionNotStartedError, SessionClosedError: There is nobody to disconnect.
            ConfigurationError: The transport lacks something; the error names it.
            RoomError: When awaited: the server refused it, or did not answer. It is an `error` event too.
        """
        return self._hang_ups.ask(after_speech=after_speech)
