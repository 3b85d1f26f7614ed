"""Audio as values: frames, rates, buffers, gain, mixing, WAV. Everything here is synchronous."""
