"""What `vivavoce console` runs.

`job` stands for a room, `keys` and `lines` read the keyboard, `view` shows the call, `run` puts it together.
"""
