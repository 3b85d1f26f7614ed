"""A call in a process of its own, which reports the modules imported during the call."""
