"""Where a session takes place: a LiveKit room, a room of one process, the development room server."""
