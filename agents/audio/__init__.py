"""Audio of a session: playout, heard text, background audio and recordings."""
