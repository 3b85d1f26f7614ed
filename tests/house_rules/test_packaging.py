"""An installed vivavoce: one namespace, typed, whole, cheap to import."""

from __future__ import annotations

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


@pytest.mark.timeout(90)
def test_the_wheel_holds_every_file_of_every_package(tmp_path: Path) -> None:
    copy = tmp_path / "checkout"
    for path in files():
        (copy / path).parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(ROOT / path, copy / path)
    build = [sys.executable, "-m", "build", "--wheel", "--no-isolation", "--outdir", str(tmp_path), str(copy)]
    done = subprocess.run(build, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr

    (wheel,) = tmp_path.glob("vivavoce-*.whl")
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
