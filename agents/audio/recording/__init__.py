"""Recording of a call: one stereo file, the caller on the left, the agent on the right, on one clock.

Sample `n` of a file is the sound of `n / rate` seconds after the recording began: the caller's as it came in, the
agent's as it was played. Audio of the agent that an interruption takes back before it is played is not in the file. A
moment is written to the file, in a thread, once no more audio of it can come; the audio that waits for the disk is
limited.
"""
