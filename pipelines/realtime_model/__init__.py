"""The realtime model port: speech in, speech out, one remote conversation."""
