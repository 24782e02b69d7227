"""What the fetcher is told (events) and what it wants done (effects), and its settings."""

from __future__ import annotations

from typing import NamedTuple

from minikafka.protocol.messages.fetch import FetchRequest
from minikafka.protocol.schema import Response
from minikafka_client.errors import KafkaError
from minikafka_client.types import AutoOffsetReset, IsolationLevel


class FetcherConfig(NamedTuple):
    """The consumer's settings, as far as fetching goes; see `Consumer`."""

    fetch_min_bytes: int
    fetch_max_wait_ms: int
    fetch_size_bytes_max: int
    partition_fetch_size_bytes_max: int
    prefetch_size_bytes_max: int
    isolation_level: IsolationLevel
    auto_offset_reset: AutoOffsetReset
    check_crcs: bool
    client_rack: str = ""
    metadata_max_age_ms: int = 300_000


# --- events ---


class NodeConnected(NamedTuple):
    """A broker can be asked."""

    node: int


class NodeFailed(NamedTuple):
    """A broker cannot be reached; it may be tried again (the network waits long enough)."""

    node: int


class Fetched(NamedTuple):
    """The answer to a `SendFetch`."""

    request_id: int
    answer: Response | KafkaError


class Changed:
    """Partitions were assigned, sought, paused or resumed, records handed out, or metadata came."""


Event = NodeConnected | NodeFailed | Fetched | Changed

# --- effects ---


class Connect(NamedTuple):
    """Open a connection to a broker; answered by `NodeConnected` or `NodeFailed`."""

    node: int


class SendFetch(NamedTuple):
    """Send a request to a connected broker; answered by `Fetched`."""

    node: int
    request_id: int
    request: FetchRequest
    version_max: int


class RefreshMetadata(NamedTuple):
    """Ask for the metadata of these topics soon."""

    topics: frozenset[str]


Effect = Connect | SendFetch | RefreshMetadata
