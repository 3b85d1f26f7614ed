"""The turn machine decides who has the floor. It is pure: no event loop, no clock, no randomness.

`TurnMachine.handle(input, *, now)` returns effects, and `next_deadline()` the time of the next `Tick`. The machine's
state is everything that a conversation must remember to decide. The session feeds inputs in the order in which they
came and carries effects out in order. A recorded trace replays all decisions.

* `user/`, the user's turn: bursts of speech (`turn`), transcripts (`user_turns`), the end of the turn (`endpointing`,
  `limits`), its commit (`commit`), finals that come after it (`late_finals`).
* `floor/`, the next speaker: speeches (`floor`) and their order (`queue`), the caller's claim (`caller_floor`), answers
  begun ahead (`preemption`), answers to late results (`late_answers`), the pipeline that serves (`pipeline_changes`).
* `barge_in/`, the caller's voice against the agent's: pause, resume, cut (`interruption`), times without interruption
  (`guard`), the application's policies (`policy`, `policy_runner`, `backchannels`).
* `trace/`: the steps as JSON lines (`record`), and their replay (`replay`).

`machine` hands each input to the part that decides on it. Choices that are not seen at once:

* The queue of speeches is here, because the next speaker is a decision. Events of a pipeline are inputs as they are
  (`vivavoce.pipelines.events`), so that they are not copied.
* Each piece of state has one owner: `UserSide` the user's, `Floor` that of speeches, `ConversationState` the states
  that were reported. The other classes are the decisions on them.
* Inputs count in the order in which they came. A speech is over when the machine takes `SpeechEnded`: words that came
  before it may still go on with the turn, whatever the outcome of its answer.
* No timer is stored. Each decision computes its deadlines from the state (`deadlines`), so that none outlives its
  reason. A deadline that is due comes before the floor is given on, so the user's words come before the next speech.
"""
