"""The microseconds of each step of one produce and one fetch, beside their limits.

Two measurements give a step: the broker's processor time for each request (the kernel's clock of
the process, without a profiler), and the share of the step among samples of its stacks under the
same load. Waiting for the socket is no work, so it does not count. The broker gets a processor of
its own: where it has to share one, it is often interrupted when it wakes its client, and samples
would blame the system call that did so. The limits are measured by themselves.
"""

from __future__ import annotations

import os
import re
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Generator, Iterator, Mapping, Sequence
from contextlib import ExitStack, closing, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from minikafka.protocol.crc import crc32c

from .environment import OthersClock, describe_environment
from .flame import sampled
from .load.scheduled import percentile
from .processes import broker, cpu_seconds, peer
from .raw_client import RawClient, fetch_request, produce_request
from .report import number

SIZES: Final = (100, 10_000)
BLOCK_REQUESTS: Final = 200
SAMPLES_PER_SECOND: Final = 200
_WARM_UP_REQUESTS: Final = 2000
_FETCH_OVERHEAD_BYTES: Final = 1000
_FRAME_BYTES: Final = 4
_TRIES_MAX: Final = 100
_LOOP_CALLS: Final = 2000
_MAIN: Final = "run_broker "
_OTHER: Final = "other"

STEPS: Final[Sequence[tuple[str, str]]] = (
    ("receive: the system call", r"^recv\w* \(libc"),
    ("send: the system call", r"^(?:send|sendmsg|sendto|sendfile)\w* \(libc"),
    ("write to the log: the system call", r"^p?writev?\w* \(libc"),
    ("read from the log: the system call", r"^p?readv?\w* \(libc"),
    ("CRC32C", r"crc32c"),
    ("watch for long turns", r"broker/system/turns"),
    ("check the batch", r"storage/validation|protocol/records/"),
    ("log: offsets, index, segment", r"minikafka/storage/"),
    ("decode and encode", r"minikafka/protocol/"),
    ("partition: high watermark, who waits", r"broker/replicas/|minikafka/replication/"),
    ("handler", r"broker/handlers/|net/steady_produce"),
    ("connection: frames, order, limits", r"minikafka/broker/"),
    ("trio: epoll, tasks, wake-ups", r"\((?:trio|outcome)/|epoll|^0x\w+ \(\[vdso"),
)
"""A step, and what its frames look like. A sample belongs to the innermost frame of any step."""
_WAITING: Final = re.compile(r"^epoll_wait\w* \(libc")


def share_of_steps(lines: Sequence[str]) -> dict[str, float]:
    """The share of each step among samples; together they are 1.

    Args:
        lines: of py-spy's format ``raw``: frames from the outermost, ``;`` between them, then the
            number of samples.
    """
    counts: Counter[str] = Counter()
    for line in lines:
        stack, _, samples = line.rstrip().rpartition(" ")
        frames = stack.split(";")
        if any(frame.startswith(_MAIN) for frame in frames) and not _WAITING.search(frames[-1]):
            counts[step_of(frames)] += int(samples)
    total = counts.total()
    return {step: count / total for step, count in counts.items()}


def step_of(frames: Sequence[str]) -> str:
    """The step of a stack, by the innermost frame that belongs to any."""
    for frame in reversed(frames):
        for step, pattern in STEPS:
            if re.search(pattern, frame):
                return step
    return _OTHER


# --- measuring -----------------------------------------------------------------------------------


@dataclass(frozen=True)
class Exchange:
    """One kind of request: its name, and what one of them costs, in microseconds.

    Attributes:
        name: as in the head of the table.
        latency: p50 at a blocking client.
        cpu: of the broker's processor.
        echo: p50 of a request of the same size to an echo, with an answer of the same size.
        steps: of `cpu`.
        limits: of the copy, the CRC32C and the write of as many bytes.
    """

    name: str
    latency: float
    cpu: float
    echo: float
    steps: Mapping[str, float]
    limits: Mapping[str, float]


def measure_steps(seconds: float, say: Callable[[str], None]) -> list[Exchange]:
    """Measure produce and fetch of each of `SIZES`.

    Args:
        seconds: for each of the two measurements of each of them.
        say: reports progress.

    Raises:
        ProfileError: py-spy is missing, or may not look at the broker.
    """
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="minikafka-steps-")))
        server = stack.enter_context(broker(folder / "broker"))
        echo = stack.enter_context(peer("echo", folder / "echo")).address
        stack.enter_context(_a_processor_for(server.pid))
        client = stack.enter_context(closing(RawClient(server.bootstrap)))
        found: list[Exchange] = []
        for size in SIZES:
            topic = f"steps-{size}"
            request = produce_request(topic, 0, b"x" * size)
            kinds = {"produce": request}
            _create(client, topic, request)
            kinds["fetch"] = fetch_request(topic, 0, 0, size + _FETCH_OVERHEAD_BYTES // 10)
            for word, asked in kinds.items():
                name = f"{word} {size:,} B"
                say(name)
                load = _Load(client, asked)
                latency, cpu = _without_profiler(load, server.pid, seconds)
                path = folder / "samples"
                with sampled(server.pid, path, "raw", rate=SAMPLES_PER_SECOND, is_native=True):
                    load.run(seconds)
                shares = share_of_steps(path.read_text(encoding="utf-8").splitlines())
                found.append(
                    Exchange(
                        name,
                        latency,
                        cpu,
                        _echo(echo, len(asked), seconds / 2),
                        {step: cpu * share for step, share in shares.items()},
                        _limits(folder / "limit", size),
                    )
                )
    return found


@contextmanager
def _a_processor_for(pid: int) -> Generator[None]:
    """Keep this process, and those it starts, away from the processor of another during a block."""
    allowed = os.sched_getaffinity(0)
    if len(allowed) > 1:
        os.sched_setaffinity(pid, {max(allowed)})
        os.sched_setaffinity(0, allowed - {max(allowed)})
    try:
        yield
    finally:
        os.sched_setaffinity(0, allowed)


def _create(client: RawClient, topic: str, request: bytes) -> None:
    for _ in range(_TRIES_MAX):
        client.ask_for_topic(topic)
        if client.produce_error(request) == 0:
            return
    raise RuntimeError(f"the broker refuses to produce to {topic}")


class _Load:
    """The same request again and again."""

    def __init__(self, client: RawClient, request: bytes) -> None:
        self._client, self._request = client, request
        self._answer_bytes = len(client.ask(request)) + _FRAME_BYTES
        client.latencies_seconds(request, self._answer_bytes, _WARM_UP_REQUESTS)

    def run(self, seconds: float) -> list[float]:
        """The latencies of requests for at least so many seconds."""
        taken: list[float] = []
        end = time.perf_counter() + seconds
        while not taken or time.perf_counter() < end:
            taken += self._client.latencies_seconds(
                self._request, self._answer_bytes, BLOCK_REQUESTS
            )
        return taken


def _without_profiler(load: _Load, pid: int, seconds: float) -> tuple[float, float]:
    before = cpu_seconds(pid)
    taken = load.run(seconds)
    cpu = 1e6 * (cpu_seconds(pid) - before) / len(taken)
    return 1e6 * percentile(sorted(taken), 50), cpu


def _echo(address: str, size: int, seconds: float) -> float:
    with closing(RawClient(address)) as client:
        content, taken = bytes(size), list[float]()
        client.latencies_seconds(content, size, _WARM_UP_REQUESTS // 4)
        end = time.perf_counter() + seconds
        while not taken or time.perf_counter() < end:
            taken += client.latencies_seconds(content, size, BLOCK_REQUESTS)
    return 1e6 * percentile(sorted(taken), 50)


def _limits(path: Path, size: int) -> dict[str, float]:
    """What a copy, a checksum and a write of so many bytes take, in microseconds."""
    content = os.urandom(size)
    view = memoryview(content)
    descriptor = os.open(path, os.O_RDWR | os.O_CREAT)
    try:
        return {
            "copy": _time(lambda: bytes(view)),
            "CRC32C": _time(lambda: crc32c(content, 0, size)),
            "write to the page cache": _time(lambda: os.write(descriptor, content)),
        }
    finally:
        os.close(descriptor)
        path.unlink()


def _time(work: Callable[[], object]) -> float:
    """The median of several loops, for one call, in microseconds."""
    loops: list[float] = []
    for _ in range(9):
        started = time.perf_counter()
        for _ in range(_LOOP_CALLS):
            work()
        loops.append(1e6 * (time.perf_counter() - started) / _LOOP_CALLS)
    return percentile(sorted(loops), 50)


# --- the table -----------------------------------------------------------------------------------


def as_table(exchanges: Sequence[Exchange], environment: Mapping[str, str], others: float) -> str:
    """The steps as a Markdown table, with the limits below and what it was measured on."""
    return "\n".join(_lines(exchanges, environment, others)) + "\n"


def _lines(
    exchanges: Sequence[Exchange], environment: Mapping[str, str], others: float
) -> Iterator[str]:
    yield _row(["microseconds", *(one.name for one in exchanges)])
    yield "|---|" + "---:|" * len(exchanges)
    names = [step for step, _ in STEPS] + [_OTHER]
    for step in names:
        if any(one.steps.get(step) for one in exchanges):
            yield _row([step, *(number(one.steps.get(step, 0.0)) for one in exchanges)])
    totals: Sequence[tuple[str, Callable[[Exchange], float]]] = (
        ("**the broker's processor time**", lambda one: one.cpu),
        ("**p50 at a client on a bare socket**", lambda one: one.latency),
        ("limit: p50 of an echo of the request", lambda one: one.echo),
    )
    for name, value in totals:
        yield _row([name, *(number(value(one)) for one in exchanges)])
    for limit in exchanges[0].limits:
        yield _row([f"limit: {limit}", *(number(one.limits[limit]) for one in exchanges)])
    machine = ", ".join(environment[name] for name in ("processor", "cores", "kernel", "python"))
    yield ""
    yield f"Measured on {machine}; {others:.2f} processors were busy with other work."


def _row(cells: Sequence[str]) -> str:
    return "| " + " | ".join(cells) + " |"


def steps_table(seconds: float, say: Callable[[str], None]) -> str:
    """Measure, and return the table."""
    environment, others = describe_environment(), OthersClock()
    exchanges = measure_steps(seconds, say)
    return as_table(exchanges, environment, others.cpus())
