"""The turn machine decides who has the floor. It is pure: no event loop, no clock, no randomness.

`TurnMachine.handle(input, *, now)` returns effects, and `next_deadline()` the time of the next `Tick`. The machine's
state is everything that a conversation must remember to decide. The session feeds inputs in the order in which they
came and carries effects out in order. A recorded trace replays all decisions.

The folders are layers: each imports those before it only.

* `user/`, the user's side: bursts of speech (`burst`), the open turn (`turn`), the user now (`user_side`), the pause
  that ends a turn (`endpointing`, `limits`), finals that are owed or come late (`owed_finals`, `late_finals`).
* `floor/`, the next speaker: speeches (`speech`) and who has the floor (`floor`), their order (`queue`), their holds
  and cuts (`stops`), the caller's claim (`caller_floor`), times at which nobody speaks (`moments`), answers begun ahead
  (`preemption`), answers to late results (`late_answers`), the pipeline that serves (`pipeline_changes`).
* `barge_in/`, the caller's voice against the agent's: pause, resume, cut (`interruption`), times without interruption
  (`guard`), the application's policies (`policy_runner`; the port is `policy`).
* `exchange/`, where all of them meet: the caller's inputs (`user_turns`), the end of a turn (`commit`), sound without
  words (`noise`), the last words of a call (`hearing_out`).
* `trace/`: the steps as JSON lines (`record`), and their replay (`replay`).

`machine` hands each input to the part that decides on it. Choices that are not seen at once:

* The queue of speeches is here, because the next speaker is a decision. Events of a pipeline are inputs as they are
  (`vivavoce.pipelines.events`), so that they are not copied.
* Each piece of state has one owner: `UserSide` the user's, `Floor` that of speeches, `ConversationState` the states
  that were reported. The other classes are the decisions on them.
* The records (`Burst`, `UserTurn`, `Speech`, `Guess` …) change by their own methods only, which are named by the act
  and refuse what makes no sense. Who decides asks the record; everybody may read.
* To have the floor and to be heard are two facts of a speech. A turn is closed, answered and given the floor in three
  acts (`TurnCommit.commit`). So a model that listens while it speaks needs no second machine.
* Inputs count in the order in which they came. A speech is over when the machine takes `SpeechEnded`: words that came
  before it may still go on with the turn, whatever the outcome of its answer.
* Words of a sound shorter than `min_duration` ("stop") pause the agent at their final, once the sound is over, and cut
  it at the end of their turn, since "I" may become "I see". The agent used to speak on until then.
* No timer is stored. Each decision computes its deadlines from the state (`deadlines`), so that none outlives its
  reason. A deadline that is due comes before the floor is given on, so the user's words come before the next speech.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from vivavoce.pipelines.core.lazy import lazy_names

if TYPE_CHECKING:
    from vivavoce.agents.turn.backchannels import backchannels_for
    from vivavoce.agents.turn.policy import InterruptionMoment, InterruptionPolicy

_PLACES = {
    "vivavoce.agents.turn.backchannels": "backchannels_for",
    "vivavoce.agents.turn.policy": "InterruptionMoment InterruptionPolicy",
}

__all__ = [
    "InterruptionMoment",
    "InterruptionPolicy",
    "backchannels_for",
]

if not TYPE_CHECKING:
    __getattr__, __dir__ = lazy_names(__name__, _PLACES)
