"""The conversation as text: items, sinks that keep it, and the snapshot that another session goes on with."""
