"""The worker: takes jobs from a LiveKit server over its agent protocol and runs them.

`protocol` and `supervisor` (with `reports`) are pure: messages to and from bytes, one input in and effects out.
`server` and `connection` move bytes; `executor`, `run` and `job` run jobs, as tasks of this process today and behind a
port that later holds processes. `worker` is the face, `process` owns signals and heap where the worker is everything.
"""
