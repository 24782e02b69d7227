"""The table of APIs in docs/compatibility.md: what Kafka 4.4 serves, what this broker serves, why.

`python -m tests.compatibility.api_table` writes it from the handler table.
"""

from __future__ import annotations

from pathlib import Path
from typing import Final, NamedTuple

from minikafka.broker.handlers import API_TABLE

PAGE: Final = Path(__file__).parents[2] / "docs" / "compatibility.md"
BEGIN: Final = "<!-- APIs: written by python -m tests.compatibility.api_table -->\n"
END: Final = "<!-- end of the APIs -->\n"


class KafkaApi(NamedTuple):
    """An API of the broker listener of Apache Kafka 4.4.0, and its stable versions."""

    api_key: int
    name: str
    first: int
    last: int


KAFKA: Final = tuple(
    KafkaApi(*row)
    for row in (
        (0, "Produce", 3, 13),
        (1, "Fetch", 4, 18),
        (2, "ListOffsets", 1, 11),
        (3, "Metadata", 0, 13),
        (8, "OffsetCommit", 2, 10),
        (9, "OffsetFetch", 1, 10),
        (10, "FindCoordinator", 0, 6),
        (11, "JoinGroup", 0, 9),
        (12, "Heartbeat", 0, 4),
        (13, "LeaveGroup", 0, 5),
        (14, "SyncGroup", 0, 5),
        (15, "DescribeGroups", 0, 6),
        (16, "ListGroups", 0, 5),
        (17, "SaslHandshake", 0, 1),
        (18, "ApiVersions", 0, 5),
        (19, "CreateTopics", 2, 7),
        (20, "DeleteTopics", 1, 6),
        (21, "DeleteRecords", 0, 2),
        (22, "InitProducerId", 0, 5),
        (23, "OffsetForLeaderEpoch", 2, 4),
        (24, "AddPartitionsToTxn", 0, 5),
        (25, "AddOffsetsToTxn", 0, 4),
        (26, "EndTxn", 0, 5),
        (27, "WriteTxnMarkers", 1, 2),
        (28, "TxnOffsetCommit", 0, 6),
        (29, "DescribeAcls", 1, 3),
        (30, "CreateAcls", 1, 3),
        (31, "DeleteAcls", 1, 3),
        (32, "DescribeConfigs", 1, 4),
        (33, "AlterConfigs", 0, 2),
        (34, "AlterReplicaLogDirs", 1, 2),
        (35, "DescribeLogDirs", 1, 5),
        (36, "SaslAuthenticate", 0, 2),
        (37, "CreatePartitions", 0, 3),
        (38, "CreateDelegationToken", 1, 3),
        (39, "RenewDelegationToken", 1, 2),
        (40, "ExpireDelegationToken", 1, 2),
        (41, "DescribeDelegationToken", 1, 3),
        (42, "DeleteGroups", 0, 3),
        (43, "ElectLeaders", 0, 2),
        (44, "IncrementalAlterConfigs", 0, 1),
        (45, "AlterPartitionReassignments", 0, 1),
        (46, "ListPartitionReassignments", 0, 0),
        (47, "OffsetDelete", 0, 0),
        (48, "DescribeClientQuotas", 0, 1),
        (49, "AlterClientQuotas", 0, 1),
        (50, "DescribeUserScramCredentials", 0, 0),
        (51, "AlterUserScramCredentials", 0, 0),
        (55, "DescribeQuorum", 0, 2),
        (57, "UpdateFeatures", 0, 2),
        (60, "DescribeCluster", 0, 2),
        (61, "DescribeProducers", 0, 0),
        (64, "UnregisterBroker", 0, 0),
        (65, "DescribeTransactions", 0, 0),
        (66, "ListTransactions", 0, 2),
        (68, "ConsumerGroupHeartbeat", 0, 1),
        (69, "ConsumerGroupDescribe", 0, 1),
        (71, "GetTelemetrySubscriptions", 0, 0),
        (72, "PushTelemetry", 0, 0),
        (74, "ListConfigResources", 0, 1),
        (75, "DescribeTopicPartitions", 0, 0),
        (76, "ShareGroupHeartbeat", 1, 1),
        (77, "ShareGroupDescribe", 1, 1),
        (78, "ShareFetch", 1, 2),
        (79, "ShareAcknowledge", 1, 2),
        (80, "AddRaftVoter", 0, 1),
        (81, "RemoveRaftVoter", 0, 0),
        (83, "InitializeShareGroupState", 0, 0),
        (84, "ReadShareGroupState", 0, 0),
        (85, "WriteShareGroupState", 0, 1),
        (86, "DeleteShareGroupState", 0, 0),
        (87, "ReadShareGroupStateSummary", 0, 1),
        (88, "StreamsGroupHeartbeat", 0, 1),
        (89, "StreamsGroupDescribe", 0, 1),
        (90, "DescribeShareGroupOffsets", 0, 1),
        (91, "AlterShareGroupOffsets", 0, 0),
        (92, "DeleteShareGroupOffsets", 0, 0),
        (93, "StreamsGroupTopologyDescriptionUpdate", 0, 0),
        (94, "UnregisterController", 0, 0),
    )
)
"""Read from the message files in kafka-clients 4.4.0."""

_BETWEEN_BROKERS = "between brokers; ours speak a protocol of their own"
_TOKENS = "delegation tokens are not planned"
_VOTERS = "voters are replaced with `minikafka quorum admit`; their number is fixed"

REASONS: Final = {
    "AlterClientQuotas": "there are no quotas; DescribeClientQuotas shows none",
    "CreateDelegationToken": _TOKENS,
    "RenewDelegationToken": _TOKENS,
    "ExpireDelegationToken": _TOKENS,
    "DescribeDelegationToken": _TOKENS,
    "InitProducerId": "6 is KIP-939, two-phase commit, which Kafka has declared and not released",
    "ConsumerGroupHeartbeat": "not yet (KIP-848)",
    "ConsumerGroupDescribe": "not yet (KIP-848)",
    "ShareGroupHeartbeat": "not yet (KIP-932)",
    "ShareGroupDescribe": "not yet (KIP-932)",
    "ShareFetch": "not yet (KIP-932)",
    "ShareAcknowledge": "not yet (KIP-932)",
    "DescribeShareGroupOffsets": "not yet (KIP-932)",
    "AlterShareGroupOffsets": "not yet (KIP-932)",
    "DeleteShareGroupOffsets": "not yet (KIP-932)",
    "AddRaftVoter": _VOTERS,
    "RemoveRaftVoter": _VOTERS,
    "UnregisterController": "controllers are not registered",
    "InitializeShareGroupState": _BETWEEN_BROKERS,
    "ReadShareGroupState": _BETWEEN_BROKERS,
    "WriteShareGroupState": _BETWEEN_BROKERS,
    "DeleteShareGroupState": _BETWEEN_BROKERS,
    "ReadShareGroupStateSummary": _BETWEEN_BROKERS,
}
"""Why the versions differ, by API; used only where they do."""


def rows() -> list[tuple[int, str, str, str, str]]:
    """Key, name, versions here, versions of Kafka and the reason if they differ; one per API."""
    found: list[tuple[int, str, str, str, str]] = []
    for api in KAFKA:
        handler = API_TABLE.get(api.api_key)
        served = "–" if handler is None else _range(handler.first_version, handler.last_version)
        kafkas = _range(api.first, api.last)
        reason = "" if served == kafkas else REASONS.get(api.name, "")
        found.append((api.api_key, api.name, served, kafkas, reason))
    return found


def _range(first: int, last: int) -> str:
    return str(first) if first == last else f"{first}-{last}"


def section() -> str:
    """The table with the markers around it."""
    table = rows()
    handlers = [(API_TABLE.get(api.api_key), api) for api in KAFKA]
    whole = sum(
        one is not None and one.first_version <= api.first and one.last_version >= api.last
        for one, api in handlers
    )
    lines = [
        f"All versions of {whole} of the {len(table)} APIs of Kafka 4.4's brokers are served.\n",
        "\n",
        "| key | API | served | Kafka 4.4 | why it differs |\n",
        "|--:|---|---|---|---|\n",
        *(" | ".join(["|", *map(str, row)]).replace("| |", "|") + " |\n" for row in table),
    ]
    return BEGIN + "".join(lines) + END


def with_section(page: str) -> str:
    """The page with its table replaced."""
    before, _, rest = page.partition(BEGIN)
    _, _, after = rest.partition(END)
    return before + section() + after


if __name__ == "__main__":
    PAGE.write_text(with_section(PAGE.read_text(encoding="utf-8")), encoding="utf-8")
