"""One conversation: the session's public class, its decision loop, its start and close.

`session` is the public class; `runtime` is the one loop that feeds the turn machine and carries its effects out;
`lifecycle` is the one task that owns the session's task group from start to close.
"""
