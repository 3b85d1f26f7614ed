"""An installed vivavoce: one namespace, typed, whole, cheap to import."""

from __future__ import annotations

import re
import runpy
import shutil
import subprocess
import sys
import tomllib
import zipfile
from pathlib import Path

import pytest
from house_rules.tree import PRODUCT, ROOT, files


def test_installing_vivavoce_takes_no_plain_top_level_name(tmp_path: Path) -> None:
    """In an isolated interpreter: no PYTHONPATH, no current folder on `sys.path`."""
    code = f"import importlib.util as u; print([n for n in {[*PRODUCT, 'vivavoce.agents']!r} if u.find_spec(n)])"
    done = subprocess.run([sys.executable, "-I", "-c", code], cwd=tmp_path, capture_output=True, text=True, check=False)
    assert (done.stdout.strip(), done.stderr) == ("['vivavoce.agents']", "")


def test_plugins_and_vivavoce_stay_open_namespaces() -> None:
    assert not (ROOT / "plugins/__init__.py").exists(), "third parties could no longer add vivavoce.plugins.<name>"
    assert not (ROOT / ".paths/vivavoce/__init__.py").exists()


def test_every_distributed_package_is_marked_as_typed() -> None:
    packages = [ROOT / "agents", ROOT / "pipelines", *(f.parent for f in (ROOT / "plugins").glob("*/__init__.py"))]
    assert [str(package) for package in packages if not (package / "py.typed").is_file()] == []


def checkout(tmp_path: Path) -> Path:
    """Copy the files of the checkout: a build writes into it."""
    copy = tmp_path / "checkout"
    for path in files():
        (copy / path).parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(ROOT / path, copy / path)
    return copy


def extras() -> dict[str, list[str]]:
    """Return the extras by name, as the project writes them, with their requirements."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    found: dict[str, list[str]] = project["optional-dependencies"]
    return found


def normalised(extra: str) -> str:
    """Return the one form that every pip finds (PEP 685); pip before 23.3 compares names as they are written."""
    return re.sub(r"[-_.]+", "-", extra).lower()


def test_each_extra_has_its_normalised_name_and_texts_write_it_so() -> None:
    assert [extra for extra in extras() if extra != normalised(extra)] == []
    written = [
        (str(path), extra.strip())
        for path in files()
        if path.suffix in (".py", ".md", ".toml", ".yaml", ".html", ".js") and path.name != "CHANGELOG.md"
        for listed in re.findall(r"vivavoce\[([\w.,\- ]+)\]", (ROOT / path).read_text(encoding="utf-8"))
        for extra in listed.split(",")
    ]
    assert len(written) > 20
    assert [(path, extra) for path, extra in written if extra not in extras()] == []


OLD_PIP = "23.0.1"
"""Of Debian 12; pips before 23.3 install nothing for an extra whose name is not the one of the metadata."""


@pytest.mark.test_all("it fetches an old pip, and what is not installed here")
@pytest.mark.skipif(sys.version_info >= (3, 12), reason=f"pip {OLD_PIP} does not run on Python 3.12")
@pytest.mark.timeout(180)
def test_an_old_pip_finds_every_extra(tmp_path: Path) -> None:
    pip = [sys.executable, "-m", "pip", "download", "--quiet", "--no-deps", f"--dest={tmp_path}", f"pip=={OLD_PIP}"]
    subprocess.run(pip, check=True, capture_output=True)
    (old,) = tmp_path.glob("pip-*.whl")
    wanted = f"{checkout(tmp_path)}[{','.join(extras())}]"
    install = [sys.executable, f"{old}/pip", "install", "--dry-run", "--no-build-isolation", wanted]
    done = subprocess.run(install, capture_output=True, text=True, check=False, cwd=tmp_path)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "does not provide the extra" not in done.stdout + done.stderr
    needed = {re.split(r"[^\w.-]", one)[0] for requirements in extras().values() for one in requirements}
    seen = re.findall(r"^\s*(?:Requirement already satisfied:|Collecting) ([\w.-]+)", done.stdout, re.MULTILINE)
    assert sorted(needed - {"vivavoce"} - set(seen)) == []


@pytest.mark.timeout(90)
def test_the_wheel_holds_every_file_of_every_package(tmp_path: Path) -> None:
    copy = checkout(tmp_path)
    build = [sys.executable, "-m", "build", "--wheel", "--no-isolation", "--outdir", str(tmp_path), str(copy)]
    done = subprocess.run(build, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr

    (wheel,) = tmp_path.glob("vivavoce-*.whl")
    (metadata,) = (name for name in zipfile.ZipFile(wheel).namelist() if name.endswith(".dist-info/METADATA"))
    text = zipfile.ZipFile(wheel).read(metadata).decode()
    provided = [
        line.removeprefix("Provides-Extra: ") for line in text.splitlines() if line.startswith("Provides-Extra")
    ]
    assert provided == [normalised(extra) for extra in extras()]
    shipped = {name for name in zipfile.ZipFile(wheel).namelist() if ".dist-info/" not in name}
    wanted = {f"vivavoce/{path}" for path in files() if path.parts[0] in PRODUCT}
    assert sorted(wanted - shipped) == [], "missing from the wheel: a package without __init__.py, or package-data"
    assert sorted(shipped - wanted) == []


def test_setup_refuses_an_older_python_before_anything_is_resolved() -> None:
    setup = runpy.run_path(str(ROOT / "setup.py"), run_name="setup")
    with pytest.raises(SystemExit, match=r"needs Python 3\.11 or newer, got 3\.10; make an environment"):
        setup["check_python"]((3, 10))
    for version in (sys.version_info[:2], (3, 11), (3, 14, 0)):
        setup["check_python"](version)
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    assert project["requires-python"] == ">=" + ".".join(map(str, setup["PYTHON"]))
