"""The limits of the machine, read from control groups of both versions; each test lays out the kernel's files."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from vivavoce.agents.worker.machine import Machine

GIB = 2**30


@pytest.fixture
def root(tmp_path: Path) -> Path:
    _write(tmp_path, "proc/meminfo", "MemTotal:       16000000 kB\nMemAvailable:    8000000 kB\n")
    return tmp_path


def _write(root: Path, path: str, text: str) -> None:
    file = root / path
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(text)


def _affinity() -> float:
    return float(len(os.sched_getaffinity(0)))


def test_a_quota_and_a_memory_limit_of_version_2_count(root: Path) -> None:
    _write(root, "proc/self/cgroup", "0::/\n")
    _write(root, "sys/fs/cgroup/cpu.max", "50000 100000\n")
    _write(root, "sys/fs/cgroup/memory.max", f"{GIB}\n")

    machine = Machine(root)

    assert (machine.cores(), machine.memory_limit()) == (0.5, GIB)


def test_the_limit_of_a_group_above_counts_if_it_is_smaller(root: Path) -> None:
    _write(root, "proc/self/cgroup", "0::/pods/one/container\n")
    _write(root, "sys/fs/cgroup/pods/cpu.max", "25000 100000\n")
    _write(root, "sys/fs/cgroup/pods/one/container/cpu.max", "100000 100000\n")
    _write(root, "sys/fs/cgroup/pods/one/memory.max", f"{GIB}\n")
    _write(root, "sys/fs/cgroup/pods/one/container/memory.max", "max\n")

    machine = Machine(root)

    assert (machine.cores(), machine.memory_limit()) == (0.25, GIB)


def test_without_limits_the_cores_are_those_that_the_process_may_run_on(root: Path) -> None:
    _write(root, "proc/self/cgroup", "0::/\n")
    _write(root, "sys/fs/cgroup/cpu.max", "max 100000\n")
    _write(root, "sys/fs/cgroup/memory.max", "max\n")

    machine = Machine(root)

    assert (machine.cores(), machine.memory_limit()) == (_affinity(), None)


@pytest.mark.parametrize("mount", ["cpu,cpuacct", "cpu"])
def test_a_quota_and_a_memory_limit_of_version_1_count(root: Path, mount: str) -> None:
    _write(root, "proc/self/cgroup", "4:memory:/docker/abc\n3:cpu,cpuacct:/docker/abc\n1:name=systemd:/\n")
    _write(root, f"sys/fs/cgroup/{mount}/docker/abc/cpu.cfs_quota_us", "75000\n")
    _write(root, f"sys/fs/cgroup/{mount}/docker/abc/cpu.cfs_period_us", "100000\n")
    _write(root, "sys/fs/cgroup/memory/docker/abc/memory.limit_in_bytes", f"{GIB}\n")

    machine = Machine(root)

    assert (machine.cores(), machine.memory_limit()) == (0.75, GIB)


def test_in_a_container_the_mount_is_the_group_if_its_path_is_the_host_s(root: Path) -> None:
    _write(root, "proc/self/cgroup", "4:memory:/docker/abc\n3:cpu:/docker/abc\n")
    _write(root, "sys/fs/cgroup/cpu/cpu.cfs_quota_us", "50000\n")
    _write(root, "sys/fs/cgroup/cpu/cpu.cfs_period_us", "100000\n")
    _write(root, "sys/fs/cgroup/memory/memory.limit_in_bytes", f"{GIB}\n")

    machine = Machine(root)

    assert (machine.cores(), machine.memory_limit()) == (0.5, GIB)


def test_version_1_without_a_limit_has_none(root: Path) -> None:
    _write(root, "proc/self/cgroup", "4:memory:/\n3:cpu:/\n")
    _write(root, "sys/fs/cgroup/cpu/cpu.cfs_quota_us", "-1\n")
    _write(root, "sys/fs/cgroup/cpu/cpu.cfs_period_us", "100000\n")
    _write(root, "sys/fs/cgroup/memory/memory.limit_in_bytes", "9223372036854771712\n")

    machine = Machine(root)

    assert (machine.cores(), machine.memory_limit()) == (_affinity(), None)


def test_the_available_memory_is_the_host_s(root: Path) -> None:
    assert Machine(root).available_memory() == 8_000_000 * 1024


def test_a_system_without_these_files_has_cores_and_no_known_memory(tmp_path: Path) -> None:
    machine = Machine(tmp_path)

    assert (machine.cores(), machine.memory_limit(), machine.available_memory()) == (_affinity(), None, None)


def test_this_machine_has_cores_and_memory() -> None:
    machine = Machine()

    assert 0 < machine.cores() <= _affinity()
    assert (machine.available_memory() or 0) > 0
