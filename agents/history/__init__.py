"""The conversation as text: items, sinks that keep it, and the snapshot with which another session continues."""
