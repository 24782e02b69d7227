"""The environment of a measurement, without which a number says little."""

from __future__ import annotations

import contextlib
import os
import platform
import resource
import shutil
import sys
import tempfile
from importlib import metadata
from pathlib import Path

import psutil

PACKAGES = ("confluent-kafka", "cramjam", "google-crc32c", "minikafka", "msgpack", "trio")


def describe_environment() -> dict[str, str]:
    """Everything that a figure depends on, in the order in which it is shown."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    folder = tempfile.gettempdir()
    return {
        "processor": _processor(),
        "cores": f"{len(os.sched_getaffinity(0))} of {os.cpu_count()}",
        "memory": f"{os.sysconf('SC_PAGE_SIZE') * os.sysconf('SC_PHYS_PAGES') / 1e9:.1f} GB",
        "kernel": f"{platform.system()} {platform.release()}",
        "python": f"{platform.python_implementation()} {platform.python_version()}",
        "packages": ", ".join(f"{name} {_version(name)}" for name in PACKAGES),
        "librdkafka": _librdkafka(),
        "open files": f"{soft} (at most {hard})",
        "log directory": (
            f"{folder} ({_file_system(folder)}, {shutil.disk_usage(folder).free / 1e9:.0f} GB free)"
        ),
        "load average before": "{:.2f} {:.2f} {:.2f}".format(*os.getloadavg()),
        "command": " ".join(["python", "-m", "benchmarks", *sys.argv[1:]]),
    }


def _processor() -> str:
    for line in Path("/proc/cpuinfo").read_text().splitlines():
        name, _, value = line.partition(":")
        if name.strip() == "model name":
            return value.strip()
    return platform.processor() or platform.machine()


def _version(package: str) -> str:
    try:
        return metadata.version(package)
    except metadata.PackageNotFoundError:
        return "missing"


def _librdkafka() -> str:
    try:
        from confluent_kafka import libversion
    except ImportError:
        return "missing"
    return libversion()[0]


def _file_system(folder: str) -> str:
    mounts = [line.split() for line in Path("/proc/mounts").read_text().splitlines()]
    holding = [
        (len(where), kind)
        for _, where, kind, *_ in mounts
        if Path(folder).resolve().is_relative_to(where)
    ]
    return max(holding)[1] if holding else "unknown"


class OthersClock:
    """How busy the processors were with work that was not that of this process and its children.

    Children that run all the time count up to now. One that is killed together with its own
    children takes what they used out of the sum.
    """

    def __init__(self) -> None:
        self._start = _busy_seconds(), _own_seconds(), _uptime_seconds()

    def cpus(self) -> float:
        """Processors that were busy with other work since construction, on average."""
        busy, own, uptime = (
            now - then
            for now, then in zip(
                (_busy_seconds(), _own_seconds(), _uptime_seconds()), self._start, strict=True
            )
        )
        return max(0.0, (busy - own) / uptime) if uptime > 0 else 0.0


def _busy_seconds() -> float:
    first = Path("/proc/stat").read_text().splitlines()[0].split()
    user, nice, system, _idle, _wait, hard, soft, steal = map(int, first[1:9])
    return (user + nice + system + hard + soft + steal) / os.sysconf("SC_CLK_TCK")


def _own_seconds() -> float:
    uses = [resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
    seconds = sum(use.ru_utime + use.ru_stime for use in uses)
    for child in psutil.Process().children(recursive=True):
        with contextlib.suppress(psutil.NoSuchProcess):
            seconds += sum(child.cpu_times()[:4])  # its own, and of its children that have ended
    return float(seconds)


def _uptime_seconds() -> float:
    return float(Path("/proc/uptime").read_text().split()[0])
