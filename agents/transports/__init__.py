"""Where a session takes place: a LiveKit room, a console, a room of one process."""
