"""Names of a session's own files: its trace, its report, its recordings."""

from __future__ import annotations

from pathlib import Path

import pytest

from vivavoce.agents.core.session_files import session_file
from vivavoce.pipelines.core.errors import ConfigurationError


@pytest.mark.parametrize(
    ("path", "expected"),
    [
        ("there", "there/s_1.jsonl"),
        ("new/", "new/s_1.jsonl"),
        ("new.d/", "new.d/s_1.jsonl"),
        ("there.d", "there.d/s_1.jsonl"),
        ("new", "new/s_1.jsonl"),
        ("call.jsonl", "call.s_1.jsonl"),
        ("new/call.txt", "new/call.s_1.txt"),
    ],
)
def test_the_files_name_follows_from_path_and_session(
    path: str, expected: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    for name in ("there", "there.d"):
        Path(name).mkdir()
    assert session_file(path, "s/1", suffix=".jsonl") == Path(expected)


def test_a_suffix_that_nothing_writes_is_refused_and_a_folder_may_have_any() -> None:
    with pytest.raises(ConfigurationError, match=r"a recording is a folder or a file in \.wav, \.ogg, got 'call\.mp3'"):
        session_file("call.mp3", "one", suffix=".wav", suffixes=(".wav", ".ogg"), what="a recording")
    assert session_file("v1.mp3/", "one", suffix=".wav", suffixes=(".wav",)) == Path("v1.mp3/one.wav")
    assert session_file(Path("call.ogg"), "one", suffix=".wav", suffixes=(".wav", ".ogg")) == Path("call.one.ogg")
