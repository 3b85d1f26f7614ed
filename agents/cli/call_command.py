"""The command `vivavoce call`."""

from __future__ import annotations

import logging
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from vivavoce.agents.cli.demo_command import ApiKey, ApiSecret, Url
from vivavoce.agents.cli.given import given_server, is_here
from vivavoce.agents.cli.offline import PACKAGES, best, caller_voice
from vivavoce.agents.cli.running import need_packages, run
from vivavoce.pipelines.core.checks import check_number
from vivavoce.pipelines.core.errors import ConfigurationError

if TYPE_CHECKING:
    from vivavoce.agents.caller.script import CallScript

DEVELOPMENT_URL = "ws://127.0.0.1:7880"


def call(
    script: Annotated[Path, typer.Argument(help="The call's script: a .toml or .json file.")],
    room: Annotated[str, typer.Option(help="The room to call; without it, a new one.")] = "",
    agent_name: Annotated[str, typer.Option(help="Dispatch the agent of this name into the room.")] = "",
    url: Url = None,
    api_key: ApiKey = None,
    api_secret: ApiSecret = None,
    repeat: Annotated[int, typer.Option(min=1, max=10_000, help="Number of calls.")] = 1,
    parallel: Annotated[int, typer.Option(min=1, max=64, help="Number of calls at a time.")] = 1,
    wire: Annotated[
        str, typer.Option(help="twilio: call `vivavoce serve --wire twilio` at --url, as Twilio does; no room.")
    ] = "",
    out: Annotated[Path, typer.Option(help="Folder of the recordings and result.json.")] = Path("call"),
    answer_limit: Annotated[
        float,
        typer.Option(
            min=0.1, max=600.0, help="Seconds for the agent to come; with --wire, for the server to open the stream."
        ),
    ] = 20.0,
) -> None:
    """Call any LiveKit agent as a script says, and check its answers.

    The caller joins the room, speaks the script's sentences, interrupts at the script's marks, and compares the answers
    with the script's expectations. Without --url (or LIVEKIT_URL) it calls the development room on this machine, the
    room of `vivavoce room` or `vivavoce dev`; a room on this machine needs no key, with --url too. In the recordings,
    left is the caller and right the agent.

    A call in which the agent leaves before the end of the script fails at once, unless another agent takes over within
    the script's `takeover` seconds, for example at a save under `vivavoce dev`. A step's `expect` may allow the agent
    to hang up (`may_leave = true`), and the last step's may require it (`leaves_within = 5`). result.json names for
    each call who ended it (`ended_by`): caller, agent, room (the connection was lost) or limit (the script's `limit`).

    Exit status: 0 if every call passed, 1 if one did not or none could be placed.
    """
    from rich.console import Console

    from vivavoce.agents.caller.script import read_script
    from vivavoce.agents.cli.call.run import CallOptions, place_calls

    logging.getLogger("livekit").setLevel(logging.CRITICAL)  # its native part logs every transport that a hang-up ends
    check_number("--answer-limit", answer_limit, at_least=0.1, unit="s")  # older releases of typer let NaN pass
    wanted = read_script(script)
    extras = ["silero"]
    if wanted.ears.words == "grammar":
        extras.append("pocketsphinx")
    elif wanted.ears.words == "general":
        extras.append(best("stt"))
    if any(step.say is not None for step in wanted.steps):
        extras.append(caller_voice(wanted.voice)[0])
    for extra in extras:
        need_packages(extra, PACKAGES.get(extra, ()))
    if wire and (room or agent_name):
        raise ConfigurationError("--room and --agent-name are for a LiveKit room: leave them out with --wire")
    server, key, secret = served(wire, url, wanted) if wire else account(url, api_key, api_secret)
    options = CallOptions(
        url=server,
        api_key=key,
        api_secret=secret,
        room=room,
        agent_name=agent_name,
        repeat=repeat,
        parallel=parallel,
        out=out,
        answer_limit=answer_limit,
        wire=wire,
    )

    async def place() -> int:
        return await place_calls(wanted, options, Console())

    raise typer.Exit(run(place))


def account(url: str | None, api_key: str | None, api_secret: str | None) -> tuple[str, str, str]:
    """Return URL, key and secret of the server to call; on this machine, those of the development room by default.

    Raises:
        ConfigurationError: The URL is malformed, or key or secret of another server are missing.
    """
    from vivavoce.agents.dev_room.options import DEV_API_KEY, DEV_API_SECRET

    if not url:
        return DEVELOPMENT_URL, api_key or DEV_API_KEY, api_secret or DEV_API_SECRET
    if not api_key and not api_secret and is_here(url):
        api_key, api_secret = DEV_API_KEY, DEV_API_SECRET
    server = given_server(url, api_key, api_secret)
    return server.url, server.api_key, server.api_secret


def served(wire: str, url: str | None, script: CallScript) -> tuple[str, str, str]:
    """Return the public address of a server of media streams, and the secret that its vendor signs with.

    Raises:
        ConfigurationError: There is no caller for that wire, or address or secret are missing, or the script's ears
            read the transcription of a room.
    """
    from vivavoce.agents.transports.media_stream.vendors import secret_of

    if wire != "twilio":
        raise ConfigurationError(f"--wire must be twilio, got {wire!r}; leave it out to call a room")
    if not url or not url.startswith(("http://", "https://")):
        raise ConfigurationError(f"--wire needs --url, the server's --public-url (http or https), got {url!r}")
    if script.ears.words == "transcription":
        raise ConfigurationError("a telephone shows no transcription: let the script's ears.words be another one")
    return url, "", secret_of(wire)
