"""faster_whisper without its library: a module of the test stands in for it. The real one was tried by hand."""

from __future__ import annotations

import importlib.machinery
import sys
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from types import ModuleType
from typing import Any

import anyio
import pytest

from kit.limits import LIMIT
from kit.speech import frames, white_noise
from vivavoce.pipelines.core.errors import ConfigurationError, ProviderError
from vivavoce.pipelines.stt.base import STTFinal
from vivavoce.plugins import faster_whisper
from vivavoce.plugins.faster_whisper import whisper


@dataclass
class Segment:
    """As faster-whisper's."""

    text: str
    avg_logprob: float = -0.2
    no_speech_prob: float = 0.1


@dataclass
class Library(ModuleType):
    """Stands in for the module `faster_whisper`; keeps what it is called with."""

    segments: tuple[Segment, ...] = (Segment(" A table for two,"), Segment(" please.", avg_logprob=-0.5))
    made: list[dict[str, Any]] = field(default_factory=list)
    asked: list[dict[str, Any]] = field(default_factory=list)
    refuses: str = ""

    def __post_init__(self) -> None:
        super().__init__("faster_whisper")
        self.__spec__ = importlib.machinery.ModuleSpec("faster_whisper", None)

    def WhisperModel(self, path: str, **settings: Any) -> Library:  # noqa: N802 - the library's name
        self.made.append({"path": path, **settings})
        if self.refuses:
            raise RuntimeError(self.refuses)
        return self

    def transcribe(self, samples: Any, **settings: Any) -> tuple[Iterator[Segment], None]:
        self.asked.append({"seconds": len(samples) / 16000, **settings})
        return iter(self.segments), None


@pytest.fixture
def library(monkeypatch: pytest.MonkeyPatch) -> Library:
    found = Library()
    monkeypatch.setitem(sys.modules, "faster_whisper", found)
    return found


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A model folder, by the names of its files."""
    for name in whisper.NEEDED:
        (tmp_path / name).write_text("{}")
    return tmp_path


async def heard(stt: faster_whisper.STT) -> STTFinal:
    stream = await stt.open()
    stream.speech_started(0.0)
    for frame in frames(white_noise(1.0, -30)):
        stream.push(frame)
    stream.flush()
    try:
        with anyio.fail_after(LIMIT):
            event = await anext(stream.events())
    finally:
        await stream.aclose()
    assert isinstance(event, STTFinal)
    return event


async def test_an_utterance_is_recognised_as_a_whole(library: Library, folder: Path) -> None:
    final = await heard(faster_whisper.STT(folder, language="en"))
    assert (final.text, final.language) == ("A table for two, please.", "en")
    assert final.confidence == pytest.approx(0.607, abs=0.001)
    (asked,) = library.asked
    assert (asked["seconds"], asked["language"], asked["condition_on_previous_text"]) == (1.0, "en", False)


async def test_the_model_is_loaded_once_with_one_thread_and_never_from_the_network(
    library: Library, folder: Path
) -> None:
    faster_whisper.STT(folder).load()
    await heard(faster_whisper.STT(folder))
    (made,) = library.made
    assert (made["path"], made["cpu_threads"], made["num_workers"]) == (str(folder), 1, 1)
    assert made["local_files_only"]


async def test_words_in_silence_are_dropped(library: Library, folder: Path) -> None:
    library.segments = (Segment("Thank you for watching.", no_speech_prob=0.9),)
    final = await heard(faster_whisper.STT(folder))
    assert (final.text, final.confidence) == ("", None)


@pytest.mark.parametrize("missing", whisper.NEEDED)
def test_a_folder_that_lacks_a_file_is_refused_with_its_name(library: Library, folder: Path, missing: str) -> None:
    (folder / missing).write_text("")
    with pytest.raises(ConfigurationError, match=rf"without {missing}; convert a model"):
        faster_whisper.STT(folder)


def test_a_path_that_is_no_folder_is_refused(library: Library, tmp_path: Path) -> None:
    with pytest.raises(ConfigurationError, match=r"model\.bin.*'.*/none', which is no folder"):
        faster_whisper.STT(tmp_path / "none")


async def test_a_damaged_model_is_refused_with_the_librarys_reason(library: Library, folder: Path) -> None:
    library.refuses = "unsupported model version"
    with pytest.raises(ConfigurationError, match="faster-whisper refuses: unsupported model version"):
        await faster_whisper.STT(folder).open()


async def test_a_failure_is_a_providers_error(library: Library, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*_: Any, **__: Any) -> None:
        raise RuntimeError("out of memory")

    monkeypatch.setattr(library, "transcribe", fail)
    with pytest.raises(ProviderError, match="the model failed: out of memory"):
        await heard(faster_whisper.STT(folder))


def test_without_the_extra_the_error_names_it(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "faster_whisper", None)
    with pytest.raises(ConfigurationError, match=r"pip install 'vivavoce\[faster-whisper\]'"):
        faster_whisper.STT(folder)


def test_options_out_of_bounds_are_refused() -> None:
    for wrong in ({"threads": 0}, {"beam_size": 0}, {"max_no_speech": 2}, {"max_no_speech": "0.5"}):
        with pytest.raises(ConfigurationError, match=next(iter(wrong))):
            faster_whisper.STTOptions(**wrong)
