"""Who has answered a call out: a human, a voicemail, a menu, call screening, an announcement.

* `options`: `MachineDetection`; `verdict`: `CallVerdict`.
* `judge`, `phrases`, `line_tones`: the pure rules: length and silence, words, tones of the line.
* `model`: the question to a model. `detection`: the detection of one session. `detecting`: its part at the session.

The session's own recogniser and VAD are the only source: their events, and the frames that they get.
"""
