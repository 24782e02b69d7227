"""The status of a cluster, for people and programs: its processes beside what brokers report."""

from __future__ import annotations

from base64 import urlsafe_b64encode
from collections.abc import Mapping, Sequence
from typing import Any, Final, NamedTuple

from ..output import Cell, count_of
from .files import Cluster, Node, NodeState
from .process import describe_end, is_paused
from .report import ClusterReport, TroubledPartition

_TROUBLED_SHOWN_MAX: Final = 20


class Table(NamedTuple):
    title: str
    columns: Sequence[str]
    rows: Sequence[Sequence[Cell]]


class View(NamedTuple):
    """Tables, and summary lines above them."""

    summary: Sequence[str]
    tables: Sequence[Table]


def process_of(node: Node) -> str:
    """The state of a node's process: running, starting, paused, or how it ended."""
    if node.pid is None:
        return "stopped" if node.exit_code is None else describe_end(node.exit_code)
    return "paused" if is_paused(node.pid) else node.state.value


def status_document(cluster: Cluster | None, report: ClusterReport | None) -> dict[str, Any]:
    """The status for programs; what is unknown is null."""
    document: dict[str, Any] = {
        "cluster_id": report and report.cluster_id,
        "is_healthy": _is_healthy(cluster, report),
        "controller_id": _or_none(report.controller_id) if report else None,
        "quorum": None,
        "nodes": [_node_document(node_id, cluster, report) for node_id in _ids(cluster, report)],
        "partitions": None,
    }
    if report is not None:
        document["partitions"] = {
            "total": report.partitions,
            "under_replicated": [_partition_document(one) for one in report.under_replicated],
            "offline": [_partition_document(one) for one in report.offline],
        }
    if report is not None and report.quorum is not None:
        quorum = report.quorum
        document["quorum"] = {
            "leader_id": _or_none(quorum.leader_id),
            "leader_epoch": quorum.leader_epoch,
            "high_watermark": quorum.high_watermark,
            "voters": [one.node_id for one in quorum.voters],
            "observers": [one.node_id for one in quorum.observers],
            "waiting": sorted(quorum.waiting),
        }
    return document


def _is_healthy(cluster: Cluster | None, report: ClusterReport | None) -> bool:
    runs = cluster is None or all(
        node.state is NodeState.RUNNING and node.pid is not None and not is_paused(node.pid)
        for node in cluster.nodes
    )
    known = {broker.node_id for broker in report.brokers} if report else set[int]()
    is_complete = cluster is None or known.issuperset(node.node_id for node in cluster.nodes)
    return runs and is_complete and report is not None and report.is_healthy


def _or_none(number: int) -> int | None:
    return number if number >= 0 else None


def _ids(cluster: Cluster | None, report: ClusterReport | None) -> list[int]:
    ids = {node.node_id for node in cluster.nodes} if cluster else set[int]()
    if report is not None:
        ids |= {broker.node_id for broker in report.brokers}
        if report.quorum is not None:
            ids |= {one.node_id for one in (*report.quorum.voters, *report.quorum.observers)}
    return sorted(ids)


def _node_document(
    node_id: int, cluster: Cluster | None, report: ClusterReport | None
) -> dict[str, Any]:
    node = next((one for one in cluster.nodes if one.node_id == node_id), None) if cluster else None
    broker = next((b for b in report.brokers if b.node_id == node_id), None) if report else None
    listener = node.listener if node is not None else None
    if broker is not None:
        listener = listener or f"{broker.host}:{broker.port}"
    state = None
    if report is not None:
        state = "unknown" if broker is None else "fenced" if broker.is_fenced else "alive"
    return {
        "node_id": node_id,
        "listener": listener,
        "pid": None if node is None else node.pid,
        "process": None if node is None else process_of(node),
        "broker": state,
        "rack": broker.rack if broker else None,
        "quorum_role": _role(node_id, report),
        "directory_id": _directory(node_id, report),
        "metadata_lag": report.quorum.lag_of(node_id) if report and report.quorum else None,
        "leads": report.leads.get(node_id, 0) if report else None,
        "replicas": report.holds.get(node_id, 0) if report else None,
        "in_sync": report.in_sync.get(node_id, 0) if report else None,
    }


def _role(node_id: int, report: ClusterReport | None) -> str | None:
    if report is None or report.quorum is None:
        return None
    if report.quorum.leader_id == node_id:
        return "leader"
    if node_id in report.quorum.waiting:
        return "waits to be admitted"
    if any(one.node_id == node_id for one in report.quorum.voters):
        return "voter"
    return "observer"


def _directory(node_id: int, report: ClusterReport | None) -> str | None:
    """As Kafka's tools show an id."""
    quorum = report.quorum if report is not None else None
    directory_id = quorum.directory_of(node_id) if quorum is not None else b""
    return urlsafe_b64encode(directory_id).decode().rstrip("=") or None


def _partition_document(one: TroubledPartition) -> dict[str, Any]:
    return {
        "topic": one.topic,
        "partition": one.partition,
        "leader": _or_none(one.leader),
        "leader_epoch": one.leader_epoch,
        "replicas": list(one.replicas),
        "in_sync_replicas": list(one.in_sync_replicas),
    }


def view_of(document: Mapping[str, Any]) -> View:
    """The status for people, from its `status_document`."""
    nodes = [
        [
            node["node_id"],
            node["listener"],
            node["pid"],
            node["process"],
            node["broker"],
            node["quorum_role"],
            node["directory_id"],
            node["metadata_lag"],
            node["leads"],
            node["in_sync"],
            node["replicas"],
        ]
        for node in document["nodes"]
    ]
    columns = ["node", "listener", "pid", "process", "broker", "quorum", "directory"]
    columns += ["metadata lag", "leads", "in sync", "replicas"]
    tables = [Table("", columns, nodes)]
    partitions = document["partitions"]
    if partitions is None:
        return View([], tables)
    troubled = [*partitions["offline"], *partitions["under_replicated"]]
    if troubled:
        tables.append(_troubled(troubled))
    return View(_summary(document), tables)


def _summary(document: Mapping[str, Any]) -> list[str]:
    quorum = document["quorum"]
    lines = [f"cluster {document['cluster_id']}"]
    if quorum is not None:
        leader = quorum["leader_id"]
        led = "no leader" if leader is None else f"led by node {leader}"
        lines.append(
            f"metadata quorum: {led} in epoch {quorum['leader_epoch']}, "
            f"{quorum['high_watermark']} committed, {count_of(len(quorum['voters']), 'voter')}"
            + (f", of which {len(quorum['waiting'])} not admitted" if quorum["waiting"] else "")
        )
    partitions = document["partitions"]
    offline, lacking = len(partitions["offline"]), len(partitions["under_replicated"])
    state = f"{offline} without a leader, {lacking} under-replicated"
    lines.append(
        f"{count_of(partitions['total'], 'partition')}: "
        + (state if offline or lacking else "all have a leader and all their replicas in sync")
    )
    return lines


def _troubled(partitions: Sequence[Mapping[str, Any]]) -> Table:
    shown = partitions[:_TROUBLED_SHOWN_MAX]
    more = len(partitions) - len(shown)
    return Table(
        "partitions in trouble" + (f", {more} more" if more else ""),
        ["topic", "partition", "leader", "epoch", "replicas", "in sync", "missing"],
        [
            [
                one["topic"],
                one["partition"],
                one["leader"],
                one["leader_epoch"],
                _joined(one["replicas"]),
                _joined(one["in_sync_replicas"]),
                _joined(sorted(set(one["replicas"]) - set(one["in_sync_replicas"]))),
            ]
            for one in shown
        ],
    )


def _joined(node_ids: Sequence[int]) -> str | None:
    return ",".join(map(str, node_ids)) or None
