"""What happened in a call: turn records, spans, metrics, logs, reports, recordings.

`observer` is what a session tells, and does nothing unless telemetry is configured; the record classes are in
`vivavoce.agents.records`.

The flush of telemetry is no step of a session's close: it follows the close, within `TelemetryOptions.flush_timeout`.
As a step, a hook that hangs would use up its share of `close_timeout` and so lose the end of exactly those traces that
matter, and a slow endpoint would make a clean close look broken.

What a trace costs is paid where no caller waits: spans in which nothing is are made with the times that they had when
their turn is over (`leaves`), those that are current around code of providers and tools take what they are told and are
checked, bounded and copied by the thread that exports (`light_spans`), their ends are told when the event loop has done
what it is at, and measured values are given to their instruments by that thread too (`measurements`).
The SDK's spans cost an event loop 42 µs each, ours 10. An application's own provider gets the SDK's, and so does a
processor that it adds to ours.
"""
