"""Traces as files: the steps of a session's turn machine and graph machine, for `vivavoce replay`.

`trace_writer` writes the file, `trace_rules` says which rules made it. The steps themselves, and their replay, are pure
and stand beside the machines: `agents/turn/trace/`, `agents/graphs/trace.py`.
"""
