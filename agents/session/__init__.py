"""One conversation: the session facade, its decision loop, its start and close, its history and events.

`session` is a thin face; `runtime` is the one loop that feeds the turn machine and carries its effects out; `lifecycle`
is the one task that owns the session's task group from start to close.
"""
