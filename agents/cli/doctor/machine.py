"""The checks of this machine: Python, the packages of the core and of each extra, weights, audio devices."""

from __future__ import annotations

import platform
import sys
from collections.abc import Iterable, Iterator, Mapping
from importlib.util import find_spec

from vivavoce.agents.cli.catalogue.providers import Listed
from vivavoce.agents.cli.doctor.findings import Finding, Health
from vivavoce.agents.cli.extras import installed_version, needs
from vivavoce.agents.cli.running import own_version
from vivavoce.pipelines.core.native_threads import LIBRARIES

OLDEST_PYTHON = (3, 11)


def python() -> Iterator[Finding]:
    """Check the interpreter and our own version."""
    found = f"{platform.python_version()} ({sys.executable})"
    if sys.version_info < OLDEST_PYTHON:
        yield Finding("python", Health.PROBLEM, found, "install Python 3.11 or newer")
    else:
        yield Finding("python", Health.OK, found)
    yield Finding("vivavoce", Health.OK, own_version())


def packages() -> Iterator[Finding]:
    """Check the packages of the core and of each extra."""
    needed = needs()
    if not needed:
        yield Finding("packages", Health.WARNING, "vivavoce is not installed here", "pip install vivavoce")
        return
    for extra, names in needed.items():
        missing = [name for name in names if installed_version(name) is None]
        if extra and not missing:
            yield Finding(f"extra {extra}", Health.OK, ", ".join(f"{name} {installed_version(name)}" for name in names))
        elif extra:
            remedy = f"only if you want it: pip install 'vivavoce[{extra}]'"
            yield Finding(f"extra {extra}", Health.ABSENT, f"without {', '.join(missing)}", remedy)
        elif missing:
            yield Finding("packages", Health.PROBLEM, f"without {', '.join(missing)}", "pip install vivavoce")
        else:
            yield Finding("packages", Health.OK, f"all {len(names)} that the core needs")


def native_library() -> Iterator[Finding]:
    """Load livekit's native library; on an unfit system this fails."""
    try:
        from livekit import rtc

        rtc.AudioProcessingModule(echo_cancellation=True)
    except Exception as error:  # noqa: BLE001 - whatever the loader says is what is wrong
        remedy = "reinstall it (pip install --force-reinstall livekit); it needs glibc 2.28 or newer on Linux"
        yield Finding("livekit library", Health.PROBLEM, f"does not load: {error}", remedy)
    else:
        yield Finding("livekit library", Health.OK, f"loads ({installed_version('livekit')})")


def native_threads(environment: Mapping[str, str]) -> Iterator[Finding]:
    """Check how many threads native libraries may start in a process of vivavoce, by their variables."""
    for library in LIBRARIES.values():
        if not (library.variables and library.counts_threads) or find_spec(library.module.split(".")[0]) is None:
            continue
        names = (*library.variables, *library.stand_ins)
        given = {name: environment[name] for name in names if environment.get(name)}
        bound = ", ".join(f"{name}={value}" for name, value in library.variables.items())
        found = ", ".join(f"{name}={value}" for name, value in given.items()) or f"{bound} while it is loaded"
        name = f"threads of {library.module}"
        if all(value == "1" for value in given.values()):
            yield Finding(name, Health.OK, found)
        else:
            remedy = f"set {bound}, unless you want more: further threads for one call take the cores from the others"
            yield Finding(name, Health.WARNING, found, remedy)


def model_files(listed: Iterable[Listed]) -> Iterator[Finding]:
    """Check the weights that `vivavoce models get` gets; those that are there are used."""
    for file in (file for each in listed for file in each.provider.files):
        name = f"weights of {file.name}"
        if not file.is_there:
            yield Finding(name, Health.ABSENT, "not here", f"only if you want them: {file.remedy}")
        elif fault := file.fault():
            yield Finding(name, Health.WARNING, f"not as published: {fault}", file.remedy)
        elif find_spec("onnxruntime") is None:
            yield Finding(
                name, Health.WARNING, f"{file.path}, without onnxruntime", "pip install 'vivavoce[smart-turn]'"
            )
        else:
            yield Finding(name, Health.OK, f"{file.path}; a cascade without a turn detector uses them")


def audio_devices() -> Iterator[Finding]:
    """Check for a microphone and speakers, which only `vivavoce console` uses."""
    name = "audio devices"
    if installed_version("sounddevice") is None:
        yield Finding(name, Health.ABSENT, "not looked for", "for vivavoce console: pip install 'vivavoce[console]'")
        return
    try:
        import sounddevice
    except OSError as error:
        remedy = "install PortAudio; on Debian and Ubuntu: apt install libportaudio2"
        yield Finding(name, Health.WARNING, f"no audio library: {error}", remedy)
        return
    try:
        devices = list(sounddevice.query_devices())
        default = sounddevice.default.device
    except sounddevice.PortAudioError as error:
        yield Finding(name, Health.WARNING, f"cannot be listed: {error}", "see whether the sound server runs")
        return
    for number, kind, channels in ((0, "microphone", "max_input_channels"), (1, "speakers", "max_output_channels")):
        fit = [device["name"] for device in devices if device[channels] > 0]
        chosen = devices[default[number]]["name"] if fit and default[number] >= 0 else ""
        if not fit:
            remedy = "plug one in, or use vivavoce console --text or --wav, or the page of vivavoce dev"
            yield Finding(kind, Health.WARNING, "none", remedy)
        elif not chosen:
            yield Finding(
                kind, Health.WARNING, f"{len(fit)}, none is the default", "choose one with --input or --output"
            )
        else:
            yield Finding(kind, Health.OK, f"{chosen} ({len(fit)} in all)")
