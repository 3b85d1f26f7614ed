"""Telephone calls over a vendor's WebSocket: Twilio, Telnyx, Plivo, Vonage, and plain PCM for one's own programs.

`wire` is the port of the vendors' messages, sans-I/O, with a folder for each vendor; `coding` the form of the samples;
`inbound` orders and mends the caller's audio, `doubler` doubles its rate; `sink` counts what the vendor has played;
`transport` joins them to a session.
"""
