"""Transports: a LiveKit room, a console, or a room inside the process."""
