"""A conversation without a room: microphone and speakers of this machine, WAV files in their place, or typed text.

`transport` is the session's side, `speaker` the queue that it plays into. `devices` and `wav` are the sources and sinks
of audio. `echo` removes the agent's own voice from the microphone. `typed` works without audio.

Decisions:

* Audio at the ends is 48 kHz in blocks of 10 ms, the format of devices and of livekit's audio processing. There are
  two streams, one for each direction: a duplex stream hangs on PulseAudio.
* PortAudio's threads only move bytes. Echo cancellation runs on the session's loop, on played and heard blocks in the
  order in which the devices took and gave them.
"""
