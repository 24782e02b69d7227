"""What simulated nodes, their controller and their clients say to each other."""

from __future__ import annotations

from typing import NamedTuple

from minikafka.consensus import Message
from minikafka.lab.simulation.kit.truth import Decided, Entry
from minikafka.metadata.brokers import Registration
from minikafka.protocol.errors import ErrorCode
from minikafka.replication import FetchAnswer, FetchPosition, ProposeIsr


def shortened(entries: tuple[Entry, ...]) -> str:
    """What a trace shows of entries."""
    return ", ".join(f"{one.value}@{one.base_offset}/{one.epoch}" for one in entries)


class QuorumMessage(NamedTuple):
    """Between the nodes of the metadata quorum."""

    message: Message


# --- a broker and the controller ------------------------------------------------------------------


class Register(NamedTuple):
    registration: Registration

    def __str__(self) -> str:
        return f"register {self.registration.incarnation_id!r}"


class Registered(NamedTuple):
    incarnation_id: bytes
    broker_epoch: int


class Heartbeat(NamedTuple):
    broker_id: int
    broker_epoch: int
    applied_index: int


class HeartbeatRefused(NamedTuple):
    """Another process registered with that broker id, or it has to register again."""

    broker_epoch: int


class Entries(NamedTuple):
    """Entries of the metadata log from an index on; also the answer to a heartbeat."""

    first_index: int
    entries: tuple[Decided, ...]

    def __str__(self) -> str:
        return f"metadata log {self.first_index} to {self.first_index + len(self.entries)}"


class Alter(NamedTuple):
    broker_id: int
    broker_epoch: int
    number: int
    proposal: ProposeIsr


class Altered(NamedTuple):
    number: int
    proposal: ProposeIsr
    error_code: ErrorCode


class MayStop(NamedTuple):
    """A broker asks whether it may stop (controlled shutdown)."""

    broker_id: int
    broker_epoch: int
    is_forced: bool


class Stop(NamedTuple):
    broker_epoch: int


# --- replicas -------------------------------------------------------------------------------------


class Fetch(NamedTuple):
    number: int
    correlation: int
    broker_epoch: int
    position: FetchPosition
    high_watermark: int


class Fetched(NamedTuple):
    number: int
    correlation: int
    answer: FetchAnswer
    entries: tuple[Entry, ...]

    def __str__(self) -> str:
        answer = self.answer._replace(records=None)
        return f"fetched {self.number}, {self.correlation}: {answer} {shortened(self.entries)}"


# --- clients --------------------------------------------------------------------------------------


class Produce(NamedTuple):
    number: int
    correlation: int
    acks: int
    batch: bytes
    value: str
    transactional_id: str = ""

    def __str__(self) -> str:
        return f"produce {self.value} to {self.number}, acks={self.acks}"


class Produced(NamedTuple):
    number: int
    correlation: int
    error_code: ErrorCode
    base_offset: int


class Read(NamedTuple):
    number: int
    correlation: int
    offset: int


class ReadAnswer(NamedTuple):
    number: int
    correlation: int
    error_code: ErrorCode
    entries: tuple[Entry, ...]

    def __str__(self) -> str:
        return f"read {self.number}: {self.error_code.name} {shortened(self.entries)}"
