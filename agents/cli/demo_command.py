"""The command `vivavoce demo`."""

from __future__ import annotations

import logging
from enum import StrEnum
from pathlib import Path
from random import Random
from typing import TYPE_CHECKING, Annotated

import typer

from vivavoce.agents.cli.given import given_server
from vivavoce.agents.cli.offline import PACKAGES
from vivavoce.agents.cli.running import ROOM_PACKAGES, need_packages, run

if TYPE_CHECKING:
    from vivavoce.agents.cli.demo.agent import LanguageModel

Url = Annotated[str | None, typer.Option(help="A LiveKit server, such as wss://host.", envvar="LIVEKIT_URL")]
ApiKey = Annotated[str | None, typer.Option(help="Its API key.", envvar="LIVEKIT_API_KEY")]
ApiSecret = Annotated[
    str | None,
    typer.Option(help="Its API secret; better kept in the environment.", envvar="LIVEKIT_API_SECRET"),
]


SEEDS = 1000
"""Numbers of which one is drawn where none is given."""


class Answerer(StrEnum):
    """The answerer of the caller."""

    RULES = "rules"
    OPENAI = "openai"


class VoiceName(StrEnum):
    """The voice of both sides."""

    HIBARI = "hibari"
    ESPEAK = "espeak"


class EarsName(StrEnum):
    """The recogniser of both sides."""

    MOONSHINE = "moonshine"
    POCKETSPHINX = "pocketsphinx"


def _answerer(given: str) -> Answerer:
    """Return the answerer; an option that names its server's address implies a language model."""
    try:
        return Answerer(given)
    except ValueError:
        raise typer.BadParameter(
            f"needed rules or openai, got {given!r}; reach another server with OpenAI's API, such as Ollama, by "
            "--llm-base-url http://127.0.0.1:11434/v1 --llm-model NAME"
        ) from None


def demo(
    once: Annotated[bool, typer.Option("--once", help="End after the call; status 0 only if all went well.")] = False,
    no_call: Annotated[bool, typer.Option("--no-call", help="Place no call, only keep room and agent there.")] = False,
    report: Annotated[Path, typer.Option(help="Path of the call's report.")] = Path("demo/report.json"),
    wav: Annotated[Path, typer.Option(help="Path of the caller's recording.")] = Path("demo/call.wav"),
    port: Annotated[int, typer.Option(help="Port of the embedded room; 0 takes a free one.")] = 7880,
    url: Url = None,
    api_key: ApiKey = None,
    api_secret: ApiSecret = None,
    llm: Annotated[
        Answerer,
        typer.Option(parser=_answerer, metavar="[rules|openai]", help="Source of answers: rules or a language model."),
    ] = Answerer.RULES,
    llm_base_url: Annotated[
        str | None, typer.Option(help="A server with OpenAI's API, such as http://127.0.0.1:11434/v1; implies openai.")
    ] = None,
    llm_model: Annotated[str | None, typer.Option(help="Its model; a server of your own needs one.")] = None,
    voice: Annotated[
        VoiceName | None,
        typer.Option(help="What speaks; espeak is a robot.", show_default="hibari, where it is installed"),
    ] = None,
    ears: Annotated[
        EarsName | None,
        typer.Option(
            help="What hears; pocketsphinx knows only the sentences of a grammar.",
            show_default="moonshine, where it is installed",
        ),
    ] = None,
    seed: Annotated[
        int | None,
        typer.Option(min=0, help="Has the caller use the phrases of this number again.", show_default="random"),
    ] = None,
) -> None:
    """A whole call on this machine: a room, a table-booking agent, and a simulated caller who speaks to it.

    Needs no key, server, microphone or browser. With --url (or LIVEKIT_URL), the same call is placed on that server. A
    language model answers only on request. Then no call is placed, since the simulated caller knows only the rules:
    join with the printed token.
    """
    from rich.console import Console

    from vivavoce.agents.cli.demo.place import given_place
    from vivavoce.agents.cli.demo.run import Demo, DemoOptions
    from vivavoce.agents.cli.demo.speech import choose
    from vivavoce.pipelines.core.checks import check_port
    from vivavoce.pipelines.core.errors import ConfigurationError

    logging.getLogger("livekit").setLevel(logging.CRITICAL)  # its native part logs every transport that a hang-up ends
    check_port("port", port)
    need_packages("demo", PACKAGES["silero"] if url else (*PACKAGES["silero"], *ROOM_PACKAGES))
    if once and no_call:
        raise ConfigurationError("--once ends after the call and --no-call places none: give only one of them")
    model = _model(llm, llm_base_url, llm_model)
    if once and model is not None:
        raise ConfigurationError("--once ends after the call, and with a language model none is placed: leave it out")
    has_call = not no_call and model is None
    speech = choose(voice, ears, has_call=has_call)
    if seed is not None and not (has_call and speech.is_free):
        why = "no call is placed" if not has_call else f"{speech.ears} understands the sentences of a grammar only"
        raise ConfigurationError(f"--seed chooses the phrases of the simulated caller, and {why}: leave it out")
    place = None
    if url:
        server = given_server(url, api_key, api_secret)
        place = given_place(server.url, server.api_key, server.api_secret)
    options = DemoOptions(
        place=place,
        port=port,
        is_once=once,
        has_call=has_call,
        report=report,
        wav=wav,
        model=model,
        speech=speech,
        seed=Random().randrange(SEEDS) if seed is None else seed,
    )
    raise typer.Exit(run(Demo(options, Console()).run))


def _model(llm: Answerer, base_url: str | None, name: str | None) -> LanguageModel | None:
    """Return the requested language model, if any; a key in the environment alone requests none."""
    from vivavoce.agents.cli.demo.agent import LanguageModel
    from vivavoce.pipelines.core.errors import ConfigurationError

    if llm is Answerer.RULES and not base_url:
        if name:
            raise ConfigurationError(f"--llm-model {name!r} needs --llm openai or --llm-base-url")
        return None
    need_packages("openai", ("openai",))
    return LanguageModel(name=name, base_url=base_url)
