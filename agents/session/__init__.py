"""One conversation: the session's public class, its decision loop, its start and close.

`session` is the public class, and only passes on. `parts` builds the parts bottom up. `loop` feeds the turn machine,
and `apply` carries its effects out. The rooms: `life` has the one task of a session, from the start to the close;
`turns` the caller and the speeches; `handoffs` the agents and the tasks; `components` the pipelines in use.
"""
