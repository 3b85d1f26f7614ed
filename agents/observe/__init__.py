"""What happened in a call: turn records, spans, metrics, logs, reports, recordings.

`observer` is what a session tells, and does nothing unless telemetry is configured; the record classes are in
`vivavoce.agents.records`.

Other than `design.md` has it, the flush of telemetry is no step of a session's close: it follows the close, within
`TelemetryOptions.flush_timeout`. A hook that hangs would leave it nothing of `close_timeout`, and so cost the end of
exactly those traces that matter; a slow endpoint would make a clean close look broken.
"""
