"""The parts of `vivavoce new`.

`parts` chooses the project's recogniser, model and voice from the plugins' facts, `project` fills the files in
`template` and writes them. A file of `template/names` defines a name that a part's `arguments` use, such as `TALK`.
"""
