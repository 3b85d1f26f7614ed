"""The VAD port: frames in, true speech onsets and offsets out, synchronously."""
