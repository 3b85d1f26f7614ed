"""The conversation as text: its items, and the snapshot with which another session continues."""
