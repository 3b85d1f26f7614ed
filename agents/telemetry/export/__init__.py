"""The way of spans, metrics and logs to an OTLP endpoint."""
