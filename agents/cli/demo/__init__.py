"""What `vivavoce demo` runs: the table host, its simulated caller, the view, the report's checks.

`run` puts it together; `agent` and `switchboard` are the host's side; `caller` is the other process, with `line`
(what it hears and says, frame by frame) and `mind` (what to say next, pure); `checks` measures its recording.
"""
