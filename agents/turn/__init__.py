"""The turn machine: who has the floor. Pure: no event loop, no clock, no randomness.

`TurnMachine.handle(input, *, now)` returns effects, `next_deadline()` says when it wants a `Tick`. Everything that a
conversation must remember to decide is its state; whoever drives it feeds inputs in order and carries effects out in
order. Two choices differ from the first design: the queue of speeches lives here (`floor`), because who speaks next is
a decision, and pipeline events are inputs as they are (`vivavoce.pipelines.events`), so that they are not copied.
"""
