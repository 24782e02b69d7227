"""What a group member is told (events) and what it wants done (effects), and its settings."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from minikafka.protocol.schema import Request, Response
from minikafka_client.core.assignors.base import Assignor
from minikafka_client.errors import KafkaError
from minikafka_client.types import TopicPartition


class GroupConfig(NamedTuple):
    """The consumer's settings, as far as membership goes; see `Consumer`."""

    group_id: str
    group_instance_id: str | None
    assignors: tuple[Assignor, ...]
    session_timeout_ms: int
    heartbeat_interval_ms: int
    max_poll_interval_ms: int


# --- events ---


class Subscribed(NamedTuple):
    """The application wants these topics (perhaps none that exist yet)."""

    topics: tuple[str, ...]


class Left(NamedTuple):
    """The application has let go of everything and leaves the group (a static member may not)."""

    reason: str


class CoordinatorFound(NamedTuple):
    """The answer to `FindCoordinator`."""

    node: int


class CoordinatorFailed(NamedTuple):
    """The answer to `FindCoordinator`: not now (retriable), or never."""

    error: KafkaError


class Answered(NamedTuple):
    """The answer to a `Send`."""

    token: int
    answer: Response | KafkaError


class Revoked:
    """The application has let go of what `Revoke` named."""


class Polled:
    """The application asked for records: it is alive."""


class MetadataChanged:
    """The cluster has news."""


Event = (
    Subscribed
    | Left
    | CoordinatorFound
    | CoordinatorFailed
    | Answered
    | Revoked
    | Polled
    | MetadataChanged
)

# --- effects ---


class FindCoordinator:
    """Look up the group's coordinator and connect to it."""


class Send(NamedTuple):
    """Send a request to the coordinator; answered by `Answered`."""

    node: int
    token: int
    request: Request
    timeout_ms: int | None = None


class Revoke(NamedTuple):
    """Take partitions from the application, in its own task; answered by `Revoked`.

    ``is_lost``: others may have them already; it is too late to commit.
    """

    partitions: Sequence[TopicPartition]
    is_lost: bool


class Assign(NamedTuple):
    """Give the application partitions that it does not have yet (perhaps none)."""

    partitions: Sequence[TopicPartition]


class RefreshMetadata(NamedTuple):
    """Ask for the metadata of these topics soon."""

    topics: frozenset[str]


class Fail(NamedTuple):
    """The member cannot go on; the application is told."""

    error: KafkaError


Effect = FindCoordinator | Send | Revoke | Assign | RefreshMetadata | Fail
