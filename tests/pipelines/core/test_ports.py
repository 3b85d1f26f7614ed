"""The words for a port that a program cannot listen on."""

from __future__ import annotations

import socket

from vivavoce.pipelines.core.ports import why_no_port


def test_a_host_that_is_no_address_is_named() -> None:
    text = why_no_port(socket.gaierror(socket.EAI_NONAME, "Name or service not known"), "phone.invalid", 8080)
    assert text.startswith("cannot listen on phone.invalid:8080: 'phone.invalid' is no address of this machine")
