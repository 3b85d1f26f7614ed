"""The worker: takes jobs from a LiveKit server over its agent protocol and runs them.

`protocol` and `supervisor` (with `reports`) are pure: `protocol` converts messages to and from bytes, `supervisor`
takes one input and returns effects. `server` and `connection` move bytes. `executor`, `run` and `job` run jobs as tasks
of this process, behind a port that can also hold processes. `worker` is the public class. `process` handles signals and
the heap of a process that runs only a worker.
"""
