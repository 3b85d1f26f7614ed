"""The parts of `vivavoce demo`: the table host, its simulated caller, the view, the report's checks.

`run` joins them; `agent` and `switchboard` are the host's side; `caller` is the other process, with `mind` (decides its
next line, pure) and the shared parts of `agents/caller`; `checks` measures the recordings.
"""
