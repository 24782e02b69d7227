"""What a group member's machine is told and asks for, in either group protocol.

`group_member` speaks the classic protocol, `consumer_group_member` KIP-848's. One shell
(`trio_api.group_loop`) runs both.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, NamedTuple, Protocol

from minikafka.protocol.schema import Request, Response
from minikafka_client.errors import KafkaError
from minikafka_client.types import TopicPartition

# --- events ---


class Subscribed(NamedTuple):
    """The application wants these topics (perhaps none that exist yet).

    ``pattern``: the broker adds all whose name it matches (RE2, KIP-848 only).
    """

    topics: tuple[str, ...]
    pattern: str | None = None


class Left(NamedTuple):
    """The application has released everything and leaves the group (a static member stays)."""

    reason: str


class CoordinatorFound(NamedTuple):
    node: int


class CoordinatorFailed(NamedTuple):
    """The answer to `FindCoordinator`: not now (retriable), or never."""

    error: KafkaError


class Answered(NamedTuple):
    token: int
    answer: Response | KafkaError


class Revoked:
    """The application has released the partitions of `Revoke`."""


class Polled:
    """The application asked for records: it is alive."""


class MetadataChanged:
    """New metadata has arrived."""


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
    version_min: int = 0


class Revoke(NamedTuple):
    """Take partitions from the application, which answers `Revoked`; lost: too late to commit."""

    partitions: Sequence[TopicPartition]
    is_lost: bool


class Assign(NamedTuple):
    """Assign new partitions to the application (perhaps none)."""

    partitions: Sequence[TopicPartition]


class RefreshMetadata(NamedTuple):
    """Ask for the metadata of these topics soon; some are known by their ids only."""

    topics: frozenset[str]
    topic_ids: frozenset[bytes] = frozenset()


class Fail(NamedTuple):
    """The member cannot continue; the application's next poll raises the error."""

    error: KafkaError


Effect = FindCoordinator | Send | Revoke | Assign | RefreshMetadata | Fail


NO_MEMBER: Final = ""


class Member(Protocol):
    """A group member's machine, as far as its shell and the consumer know it.

    Attributes:
        member_id, generation_id: the identity for commits ("" and -1 outside the group); in
            KIP-848's protocol the generation is the member epoch.
        coordinator: the node, while it is known.
        owned: the partitions that the application has, or is being assigned.
        topics: what it subscribes to by name.
        rebalance_count: how many assignments there were.
    """

    member_id: str
    generation_id: int
    coordinator: int | None
    topics: tuple[str, ...]
    rebalance_count: int

    @property
    def owned(self) -> frozenset[TopicPartition]: ...

    @property
    def uses_member_epochs(self) -> bool:
        """Whether ``generation_id`` is a member epoch (KIP-848)."""
        ...

    @property
    def state_name(self) -> str: ...

    @property
    def group_instance_id(self) -> str | None: ...

    def handle(self, event: Event, now: float) -> list[Effect]: ...

    def expire(self, now: float) -> list[Effect]: ...

    def deadline(self) -> float | None: ...

    def commit_refused(self, code: int, now: float) -> list[Effect]:
        """The coordinator refused a commit because of the member, with this code."""
        ...
