"""What `vivavoce doctor` looks at: `machine` (Python, extras, audio devices), `servers` (LiveKit, OTLP), and how a
`Finding` is shown and judged. It only looks: nothing is installed, no room is made, no audio is played.
"""
