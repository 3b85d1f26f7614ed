"""LiveReplies: the speeches of a session that are not over, by their ids."""

from __future__ import annotations

from collections.abc import Callable, Iterable

from vivavoce.agents.audio.utterance import Utterance
from vivavoce.agents.core.speech_handle import SpeechHandle
from vivavoce.agents.speech.reply import Reply
from vivavoce.agents.speech.warm_task import WarmTask
from vivavoce.agents.turn import effects as fx


class LiveReplies(dict[str, Reply]):
    """Carries out what the turn machine decides on the floor. A speech that is over is passed over.

    Args:
        heard_before: Returns the speeches that are heard before one that waits, by their ids.
    """

    def __init__(self, heard_before: Callable[[str], Iterable[str]]) -> None:
        super().__init__()
        self._heard_before = heard_before

    def grant(self, effect: fx.GrantFloor, lane: WarmTask) -> None:
        """That speech has the floor."""
        reply = self.get(effect.speech_id)
        if reply is not None:
            self._begin(reply, reply.grant, lane)

    def prepare(self, effect: fx.PrepareSpeech, lane: WarmTask) -> None:
        """That speech generates, and waits for the floor."""
        reply = self.get(effect.speech_id)
        if reply is not None:
            self._begin(reply, reply.prepare, lane)

    def take_floor_back(self, effect: fx.TakeFloorBack) -> None:
        """That speech has the floor no more."""
        reply = self.get(effect.speech_id)
        if reply is not None:
            reply.take_floor_back()

    def hook_speaks(self, speech_id: str) -> None:
        """A hook of the turn that this speech answers asked for speech; empty where none did."""
        reply = self.get(speech_id)
        if reply is not None:
            reply.hook_speaks()

    def interrupt_calls(self, effect: fx.InterruptCalls) -> None:
        """The caller took the floor from that speech, which waits for its tools."""
        reply = self.get(effect.speech_id)
        if reply is not None:
            reply.interrupt_calls()

    def texts_before(self, speech_id: str) -> list[str]:
        """Return what is heard before that speech, which waits, as far as it is known and kept in the history."""
        before = map(self.get, self._heard_before(speech_id))
        requests = [reply.request for reply in before if reply is not None]
        return [r.text for r in requests if isinstance(r.text, str) and r.text.strip() and r.add_to_history]

    def unplayed(self, speech_id: str) -> Utterance | None:
        """Return the audio of its present step that plays, or waits for the floor."""
        reply = self.get(speech_id)
        return None if reply is None else reply.unplayed

    def has(self, handle: SpeechHandle) -> bool:
        """Whether that is the handle of one of them."""
        reply = self.get(handle.id)
        return reply is not None and reply.handle is handle

    def _begin(self, reply: Reply, call: Callable[[], None], lane: WarmTask) -> None:
        """Carry out the machine's decision, and run the reply if it does not run yet."""
        if reply.outcome is not None:  # it is over, which the machine receives next
            return
        is_first = not reply.is_running
        call()
        if is_first:
            lane.start(reply.run, f"speech {reply.handle.id}")
