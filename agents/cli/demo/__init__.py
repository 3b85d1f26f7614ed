"""The parts of `vivavoce demo`: the table host, its simulated caller, the view, the report's checks.

`run` joins them; `agent` and `switchboard` are the host's side; `caller` is the other process, which gives the
simulated caller (`agents/caller`) its components and its `script`; `checks` measures the recordings.
"""
