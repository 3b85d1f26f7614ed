"""The command `vivavoce console`."""

from __future__ import annotations

import json
import logging
import os
import sys
from contextlib import redirect_stdout
from pathlib import Path
from typing import Annotated

import typer

from vivavoce.agents.cli.running import run
from vivavoce.pipelines.core.errors import ConfigurationError, VoiceError


def console(
    file: Annotated[
        Path | None, typer.Argument(help="A Python file with a Worker, an entrypoint, or an Agent.", show_default=False)
    ] = None,
    text: Annotated[bool, typer.Option("--text", help="Type instead of speaking; answers come in writing.")] = False,
    as_json: Annotated[
        bool, typer.Option("--json", help="With --text: lines of JSON in and out, for a program; docs/projects.md.")
    ] = False,
    json_schema: Annotated[
        bool, typer.Option("--json-schema", help="Print the schema of the lines of --json and end.")
    ] = False,
    wav: Annotated[Path | None, typer.Option(help="Say this file instead of listening to a microphone.")] = None,
    out: Annotated[Path | None, typer.Option(help="With --wav: write the agent's speech to this file.")] = None,
    input: Annotated[str | None, typer.Option(help="The microphone: a number or a part of its name.")] = None,
    output: Annotated[str | None, typer.Option(help="The speakers: a number or a part of their name.")] = None,
    devices: Annotated[bool, typer.Option("--devices", help="List the audio devices and end.")] = False,
    no_echo_cancellation: Annotated[
        bool, typer.Option("--no-echo-cancellation", help="For headphones: leave the microphone's sound as it is.")
    ] = False,
) -> None:
    """Talk to an agent right here, by microphone and speakers, without any room or server.

    Keys: m mutes the microphone, space interrupts the agent, q ends. With --text you type; with --wav a file speaks for
    you, and the command ends when everything is answered.
    """
    from rich.console import Console

    os.environ.setdefault("PULSE_LATENCY_MSEC", "20")  # PulseAudio's own default is 200
    if devices:
        from vivavoce.agents.transports.console.devices import sound_library

        typer.echo(str(sound_library().query_devices()) or "no audio devices; see vivavoce doctor")
        raise typer.Exit
    if json_schema:
        from vivavoce.agents.cli.console.json_lines import schema

        typer.echo(json.dumps(schema(), indent=2))
        raise typer.Exit
    if file is None:
        raise ConfigurationError("give the Python file that holds your agent: vivavoce console app.py")
    if as_json and not text:
        raise ConfigurationError("--json goes with --text: its lines are what is said in writing")
    _check(text, wav, out, input, output)
    logging.getLogger("livekit").setLevel(logging.CRITICAL)

    if as_json:
        raise typer.Exit(_by_lines_of_json(file))

    async def talk() -> int:
        from vivavoce.agents.cli.app_file import load_app
        from vivavoce.agents.cli.console.lines import typed_lines
        from vivavoce.agents.cli.console.run import ROOM, Conversation
        from vivavoce.agents.cli.console.view import ConsoleView
        from vivavoce.agents.transports.console.devices import SoundDevices, sound_library
        from vivavoce.agents.transports.console.transport import ConsoleTransport
        from vivavoce.agents.transports.console.typed import TypedTransport
        from vivavoce.agents.transports.console.wav import WavEnds
        from vivavoce.pipelines.core.clock import LoopClock

        clock = LoopClock()
        app = load_app(file, has_default=True)
        if text:
            lines = typed_lines()
            view = ConsoleView(Console(), ROOM, is_typed_at=lines.is_terminal and sys.stdout.isatty())
            return await Conversation(app, TypedTransport(), view, lines=lines).run()
        view = ConsoleView(Console(), ROOM)
        if wav is not None:
            ends = WavEnds(wav, out, clock)
            return await Conversation(app, ConsoleTransport(ends, clock), view, ends).run()
        sound_library()
        transport = ConsoleTransport(
            SoundDevices(_device(input), _device(output)), clock, cancels_echo=not no_echo_cancellation
        )
        return await Conversation(app, transport, view).run()

    raise typer.Exit(run(talk))


def _by_lines_of_json(file: Path) -> int:
    """Run a conversation of lines of JSON; return the exit status.

    What the app prints goes to stderr: stdout has nothing but the lines.
    """
    from vivavoce.agents.cli.app_file import load_app
    from vivavoce.agents.cli.console.json_lines import JsonReader, JsonView
    from vivavoce.agents.cli.console.lines import typed_lines
    from vivavoce.agents.cli.console.run import Conversation
    from vivavoce.agents.transports.console.typed import TypedTransport

    view = JsonView(sys.stdout)

    async def talk() -> int:
        app = load_app(file, has_default=True)
        return await Conversation(app, TypedTransport(), view, lines=typed_lines(), read=JsonReader().read).run()

    with redirect_stdout(sys.stderr):
        try:
            return run(talk)
        except VoiceError as error:
            view.problem(str(error))
            return 1
        finally:
            view.end()


def _check(text: bool, wav: Path | None, out: Path | None, input: str | None, output: str | None) -> None:
    if text and wav is not None:
        raise ConfigurationError("--text types and --wav speaks: give only one of them")
    if out is not None and wav is None:
        raise ConfigurationError("--out goes with --wav: give a file to say, too")
    if (text or wav is not None) and (input is not None or output is not None):
        raise ConfigurationError("--input and --output choose devices, which --text and --wav do without")


def _device(given: str | None) -> int | str | None:
    return int(given) if given is not None and given.isdecimal() else given
