"""Recording a call: a stereo file, the caller left, the agent right, aligned to the session's clock.

Sample `n` of a file is what sounded `n / rate` seconds after the recording began: what the caller said as it came in,
what the agent said as it was played. Audio of the agent that was written and taken back before it sounded, as an
interruption does, is not in the file. Both sides are placed half a second late, when nothing about that moment can
change any more, and written in a thread; what waits for the disk is bounded.
"""
