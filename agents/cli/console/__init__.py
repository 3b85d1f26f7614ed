"""The parts of `vivavoce console`.

`job` replaces a room, `keys` and `lines` read the keyboard, `view` shows the call, `json_lines` are both for programs,
`run` joins the parts.
"""
