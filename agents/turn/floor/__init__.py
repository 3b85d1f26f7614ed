"""The floor: the speech that has it, the caller's claim to it, the speeches that wait, the pipeline that serves them.

Who has the floor is asked here: `Floor.active` for the agent, `CallerFloor.is_held` for the caller; both may be so at
once, and `Moments` knows when neither is.
"""
