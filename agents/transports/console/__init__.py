"""A conversation without a room: microphone and speakers of this machine, WAV files in their place, or typed text.

`transport` is the session's side, `speaker` what it plays into; `devices` and `wav` are the ends that audio comes from
and goes to, `echo` takes the agent's own voice out of the microphone, `typed` does without audio.

Decisions:

* Audio is 48 kHz in blocks of 10 ms at the ends, which is what devices and livekit's audio processing want, and two
  streams, one for each direction: a duplex stream hangs on PulseAudio.
* PortAudio's threads only move bytes. Echo cancellation runs on the session's loop, on played and heard blocks in the
  order in which the devices took and gave them.
"""
