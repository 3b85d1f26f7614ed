"""The turn machine: who has the floor. Pure: no event loop, no clock, no randomness.

`TurnMachine.handle(input, *, now)` returns effects, `next_deadline()` says when it wants a `Tick`. Everything that a
conversation must remember to decide is its state; whoever drives it feeds inputs in order and carries effects out in
order. Choices that differ from the first design, or are not seen at once:

* The queue of speeches lives here (`floor`), because who speaks next is a decision; pipeline events are inputs as they
  are (`vivavoce.pipelines.events`), so that they are not copied.
* One owner for each piece of state: `user_turn` (what the user is doing: burst and open turn), `floor` (speeches),
  `conversation_state` (what was told). `listening`, `interruption`, `commit` and `speeches` are the decisions on
  them, `machine` hands inputs out. A later decision (wake-up, away, limits of a turn) is one more such file.
* No timer is stored. Each decision computes its deadlines from the state (`deadlines`), so that none outlives its
  reason; what is due happens before the floor is given on, so that the user's words come before the next speech.
"""
