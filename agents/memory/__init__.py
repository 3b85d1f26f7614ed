"""State of a session that outlives the call: stores that keep it, and the objects that applications use."""
