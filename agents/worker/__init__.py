"""The worker: takes jobs from a LiveKit server over its agent protocol and runs them.

`protocol` and `supervisor` (with `reports`) are pure: `protocol` converts messages to and from bytes, `supervisor`
takes one input and returns effects. `server` and `connection` move bytes. `run` and `job` run a job, `executors` holds
the places where jobs run. `worker` is the public class. `process` handles the signals of a process that runs only a
worker, and `heap` its heap.
"""
