"""The command `vivavoce new`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

OF_KIND = "A provider of `vivavoce plugins` or one of its classes (deepgram.FluxSTT); then =MODEL, or =MODEL,VOICE."


def new(
    name: Annotated[str, typer.Argument(help="Name of the project, and of its folder in the working directory.")],
    stt: Annotated[str | None, typer.Option(help=f"What hears. {OF_KIND}", show_default="offline")] = None,
    llm: Annotated[str | None, typer.Option(help="What answers, likewise.", show_default="offline")] = None,
    tts: Annotated[str | None, typer.Option(help="What speaks, likewise.", show_default="offline")] = None,
) -> None:
    """Write a project: an agent with two tools, its tests, a call, a Dockerfile, and notes for coding agents.

    Without --stt, --llm and --tts its parts are offline ones, which need no key. The project appears whole or not at
    all.
    """
    from vivavoce.agents.cli.catalogue.providers import find_plugins
    from vivavoce.agents.cli.new.parts import check_together, choose, voice_activity
    from vivavoce.agents.cli.new.project import Project, check_name, write
    from vivavoce.agents.cli.running import release

    check_name(name)
    listed, _ = find_plugins()
    project = Project(
        name=name,
        vad=voice_activity(listed),
        stt=choose(listed, "stt", stt),
        llm=choose(listed, "llm", llm),
        tts=choose(listed, "tts", tts),
        version=release(),
    )
    check_together(project.parts)
    files = project.files()
    write(files, Path(name))
    typer.echo(f"{name}/: {', '.join(files)}")
    for what, one in (("hears", project.stt), ("answers", project.llm), ("speaks", project.tts)):
        typer.echo(f"  {what:8}{one.code}" + (f"  ({one.part.note})" if one.part.note else ""))
    typer.echo(f"\n{next_steps(name, project.keys())}")


def next_steps(name: str, keys: list[str]) -> str:
    """Return the commands that come next: to install it, to test it, to talk to it and to call it."""
    steps = [
        (f"cd {name}", ""),
        ("pip install --editable '.[dev]'", "in the environment that has vivavoce"),
        ("pytest", "test it, in virtual time; needs no key"),
        *([("cp .env.example .env", f"then write into it: {', '.join(keys)}")] if keys else ()),
        ("vivavoce console agent.py --text", "type to it"),
        ("vivavoce dev agent.py", "talk to it in the browser; each save changes the running call"),
        ("vivavoce call call.toml", "beside dev: a simulated caller calls it"),
    ]
    width = max(len(command) for command, _ in steps)
    return "\n".join(f"  {command:{width}}    # {why}" if why else f"  {command}" for command, why in steps)
