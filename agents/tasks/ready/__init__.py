"""Ready tasks: an e-mail address, a phone number, a postal address, a date and time, yes or no, a digit code.

The model understands the caller; the code writes, checks and reads back. Tests with a scripted model prove the plumbing
and the checks, not the understanding: try a task with your own model and recogniser before callers do. The spoken forms
("b as in bravo", "double u", "at", "dot", "double five") and the questions are English; give `question=…` and
`extra_instructions=…` for other words.

A task asks its question, and its model calls a tool with the caller's words. The tool answers with the written form to
read back, or with the reason why there is none, and the caller confirms, corrects ("no, with a d") or declines in a
later turn. `confirms=False` leaves the confirmation out.
"""
