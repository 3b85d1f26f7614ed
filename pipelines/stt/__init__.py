"""The STT port: frames in synchronously, transcripts out as a stream of events."""
