"""What happened in a call: turn records, spans, metrics, logs, reports, recordings.

`observer` is what a session tells, and does nothing unless telemetry is configured; the record classes are in
`vivavoce.agents.records`.

Other than `design.md` has it, the flush of telemetry is no step of a session's close: it follows the close, within
`TelemetryOptions.flush_timeout`. A hook that hangs would leave it nothing of `close_timeout`, and so cost the end of
exactly those traces that matter; a slow endpoint would make a clean close look broken.

What a trace costs is paid where no caller waits: spans in which nothing is are made with the times that they had when
their turn is over (`leaves`), those that are current around code of providers and tools take what they are told and are
checked, bounded and copied by the thread that exports (`light_spans`), and measured values are given to their
instruments by that thread too (`measurements`). Spans of our own beside the SDK's are what `design.md` does not have: the
SDK's cost 42 µs each where ours cost 10, on the event loop. Spans for an application's own provider are the SDK's.
"""
