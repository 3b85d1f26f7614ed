"""The command `vivavoce doctor`."""

from __future__ import annotations

import json
import logging
import os
from typing import Annotated

import typer

from vivavoce.agents.cli.demo_command import ApiKey, ApiSecret, Url
from vivavoce.agents.cli.running import run


def doctor(
    url: Url = None,
    api_key: ApiKey = None,
    api_secret: ApiSecret = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,
) -> None:
    """Check the requirements of agents, and print remedies.

    They are Python, extras, threads of native libraries, audio, LiveKit, clock, provider keys, OTLP. Each vendor whose
    key is set is asked, by one cheap request, whether it works.

    Status 0: nothing is broken, though parts may be absent; 1: something is broken. Secrets are never printed.
    """
    from rich.console import Console

    from vivavoce.agents.cli.catalogue.key_checks import try_keys
    from vivavoce.agents.cli.catalogue.providers import find_plugins
    from vivavoce.agents.cli.doctor import keys, machine, servers
    from vivavoce.agents.cli.doctor.findings import Finding, as_table, is_healthy

    logging.getLogger("livekit").setLevel(logging.CRITICAL)

    async def look() -> int:
        findings: list[Finding] = [*machine.python(), *machine.packages(), *machine.native_library()]
        findings += [*machine.native_threads(os.environ), *machine.audio_devices()]
        findings += [finding async for finding in servers.livekit(url, api_key, api_secret)]
        listed, unreadable = find_plugins()
        findings += machine.model_files(listed)
        findings += keys.provider_keys(listed, unreadable, await try_keys(listed), os.environ)
        findings += [finding async for finding in servers.otlp(os.environ)]
        if as_json:
            typer.echo(json.dumps([finding.to_json() for finding in findings], ensure_ascii=False, indent=2))
        else:
            Console(highlight=False).print(as_table(findings))
        return 0 if is_healthy(findings) else 1

    raise typer.Exit(run(look))
