"""The parts of `vivavoce console`.

`job` replaces a room, `keys` and `lines` read the keyboard, `view` shows the call, `run` joins the parts.
"""
