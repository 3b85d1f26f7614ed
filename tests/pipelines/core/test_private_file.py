"""Files that hold somebody's words: for their owner only, in one step, over any earlier file."""

from __future__ import annotations

import os
import threading
from pathlib import Path

import pytest

from vivavoce.pipelines.core.private_file import open_private, write_private
from vivavoce.pipelines.media.frame import AudioFrame
from vivavoce.pipelines.media.wav import read_wav, write_wav


def mode(path: Path) -> int:
    return path.stat().st_mode & 0o777


def test_a_new_file_is_its_owners_only(tmp_path: Path) -> None:
    write_private(tmp_path / "page.html", "ä")
    assert (tmp_path / "page.html").read_bytes() == "ä".encode()
    assert mode(tmp_path / "page.html") == 0o600


def test_a_file_that_all_could_read_is_replaced_by_one_that_they_cannot(tmp_path: Path) -> None:
    page = tmp_path / "page.html"
    page.write_text("old and longer")
    page.chmod(0o644)
    with page.open() as reading:  # as somebody who has it open
        write_private(page, b"new")
        assert reading.read() == "old and longer"
    assert (page.read_text(), mode(page)) == ("new", 0o600)
    assert os.listdir(tmp_path) == ["page.html"]


def test_what_a_link_points_to_is_replaced_and_the_link_stays(tmp_path: Path) -> None:
    (tmp_path / "link").symlink_to(tmp_path / "page.html")
    write_private(tmp_path / "link", "one")
    write_private(tmp_path / "link", "two")
    assert (tmp_path / "link").is_symlink()
    assert (tmp_path / "page.html").read_text() == "two"


def test_a_pipe_is_written_to_and_not_replaced(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    read: list[bytes] = []
    reader = threading.Thread(target=lambda: read.append((tmp_path / "pipe").read_bytes()))
    reader.start()
    write_private(tmp_path / "pipe", "through")
    reader.join(10)
    assert read == [b"through"]
    assert (tmp_path / "pipe").is_fifo()


def test_a_file_that_cannot_be_written_leaves_the_old_one_and_nothing_else(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError):
        write_private(tmp_path / "none" / "page.html", "x")
    (tmp_path / "folder").mkdir()
    with pytest.raises(IsADirectoryError):
        write_private(tmp_path / "folder", "x")
    assert os.listdir(tmp_path) == ["folder"]


def test_a_file_written_piece_by_piece_is_its_owners_only_from_its_beginning(tmp_path: Path) -> None:
    (tmp_path / "old.wav").write_bytes(b"old and longer")
    (tmp_path / "old.wav").chmod(0o644)
    for name in ("old.wav", "new.wav"):
        with open_private(tmp_path / name) as file:
            assert mode(tmp_path / name) == 0o600
            file.write(b"sound")
        assert (tmp_path / name).read_bytes() == b"sound"


def test_a_wav_file_is_its_owners_only(tmp_path: Path) -> None:
    for _ in range(2):
        write_wav(tmp_path / "call.wav", AudioFrame(b"\1\0\2\0" * 8, 16000, 2))
    assert mode(tmp_path / "call.wav") == 0o600
    assert read_wav(tmp_path / "call.wav").num_channels == 2
