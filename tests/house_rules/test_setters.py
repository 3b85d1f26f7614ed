"""The rule about setters, shown on a small package of its own."""

from __future__ import annotations

from pathlib import Path

import pytest
from house_rules.rules import ROOT
from mypy import api

pytestmark = pytest.mark.timeout(120)  # mypy reads the types of the standard library first

PORT = """
from dataclasses import dataclass


class Service:
    def __init__(self) -> None:
        self.value = 0
        self._copied = False

    def open(self, value: int) -> None:
        self.value = value

    def copy(self) -> "Service":
        made = Service()
        made._copied = True
        return made


@dataclass
class Record:
    value: int = 0


def write(record: Record, foreign: Exception) -> None:
    record.value = 1
    foreign.__cause__ = None
"""

USER = """
from vivavoce.agents.one.port import Record, Service


class Owner:
    def __init__(self, service: Service, record: Record) -> None:
        self.service = service
        self.record = record

    def work(self) -> None:
        self.service.value = 1  # breaks
        self.service.value += 1  # breaks
        self.record.value, other = 1, 2  # breaks
        self.count = 3


def wire(owner: Owner | None) -> None:
    if owner is not None:
        owner.service = Service()  # breaks
    for service in [Service()]:
        service.value = 1  # breaks
    service.open(1)
"""


RECORDS = """
from dataclasses import dataclass


@dataclass
class Record:
    value: int = 0
    behind: "Record | None" = None

    def take(self, value: int) -> None:
        self.value = value

    def take_behind(self) -> None:
        if self.behind is not None:
            self.behind.value = 1  # breaks


def write(record: Record) -> None:
    record.value += 1  # breaks
    record.take(1)
"""

FILES = {"one/port.py": PORT, "two/user.py": USER, "turn/records.py": RECORDS}
"""By their places in `vivavoce.agents`; records of the package `turn` change by their own methods only."""


def test_an_attribute_set_from_outside_is_reported(tmp_path: Path) -> None:
    package = tmp_path / "vivavoce" / "agents"
    for name, source in FILES.items():
        (package / name).parent.mkdir(parents=True)
        (package / name).write_text(source)
    (tmp_path / "mypy.ini").write_text(
        f"[mypy]\nplugins = {ROOT / 'tests/house_rules/setters.py'}\nexplicit_package_bases = true\n"
        f"namespace_packages = true\nmypy_path = {tmp_path}\ncache_dir = {tmp_path / 'cache'}\n"
    )

    report, errors, status = api.run(["--config-file", str(tmp_path / "mypy.ini"), "-p", "vivavoce.agents"])

    assert errors == ""
    assert status == 1
    broken = [
        f"{name}:{number}"
        for name, source in FILES.items()
        for number, line in enumerate(source.splitlines(), start=1)
        if line.endswith("# breaks")
    ]
    reported = [line.split(": error")[0] for line in report.splitlines() if line.endswith("[setter]")]
    assert sorted(place.rsplit("agents/", 1)[1] for place in reported) == sorted(broken)
