"""Where a worker's jobs run.

`executor` is the port. `task` runs jobs as tasks of the process that it is in. `process` runs them in a pool of
processes: `pool` (with `pool_events`) decides and is pure, `handles` and `ipc` move messages and signals, `parcel`
packs the application, `nursery` loads it once and forks, and `child` is the main of a job process, where `task` runs
the jobs. `measure` measures the own process.

The start of a process, its prewarm, its signs of life, its memory and its end each have a limit (`ProcessExecution`). A
process ends at the end of its connection too, since the worker is gone then, so none is left behind.
"""
