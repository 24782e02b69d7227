"""The names of nodes on the command line: 2, all, controller, leader:orders, followers:orders."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Final, TypeVar

from ..failure import CommandFailed
from .files import ClusterFiles

if TYPE_CHECKING:
    from minikafka_client.sync import AdminClient

    _Found = TypeVar("_Found")

ALL: Final = "all"
CONTROLLER: Final = "controller"
LEADER: Final = "leader"
FOLLOWERS: Final = "followers"


def node_ids_of(files: ClusterFiles, words: Sequence[str], *, is_running: bool) -> list[int]:
    """The ids of the named nodes, each once.

    Args:
        files: the cluster's directory.
        words: names of nodes.
        is_running: whether `all` means the nodes that are running, or the others.

    Raises:
        CommandFailed: a name is unknown, or the cluster cannot resolve it.
    """
    found: dict[int, None] = {}
    for word in words:
        if word == ALL:
            nodes = files.read_existing().nodes
            chosen = [one.node_id for one in nodes if (one.pid is not None) is is_running]
            if not chosen:
                raise CommandFailed(f"no node is {'running' if is_running else 'dead'}")
            found.update(dict.fromkeys(chosen))
        else:
            found.update(dict.fromkeys(_node_ids_of(files, word)))
    return list(found)


def _node_ids_of(files: ClusterFiles, word: str) -> list[int]:
    kind, *place = word.split(":")
    if word.isascii() and word.isdigit():
        return [int(word)]
    if kind == CONTROLLER and not place:
        return [_ask(files, _controller)]
    if kind in (LEADER, FOLLOWERS) and place and len(place) <= 2 and place[0]:
        topic, partition = place[0], place[1] if len(place) == 2 else "0"
        if partition.isascii() and partition.isdigit():
            leader, *followers = _ask(files, lambda admin: _replicas(admin, topic, int(partition)))
            return [leader] if kind == LEADER else followers
    raise CommandFailed(
        f"{word!r} is not a node; give a number, {ALL}, {CONTROLLER}, {LEADER}:TOPIC[:PARTITION] "
        f"or {FOLLOWERS}:TOPIC[:PARTITION]"
    )


def _ask(files: ClusterFiles, question: Callable[[AdminClient], _Found]) -> _Found:
    from minikafka_client import KafkaError
    from minikafka_client.sync import AdminClient

    from .report import QUICK_CONNECTION

    files.require_supervisor()
    bootstrap = files.read_existing().bootstrap()
    if not bootstrap:
        raise CommandFailed("no broker is running that could name it; give a node's number")
    try:
        with AdminClient(bootstrap, **QUICK_CONNECTION) as admin:
            return question(admin)
    except KafkaError as error:
        raise CommandFailed(str(error)) from None


def _controller(admin: AdminClient) -> int:
    from .report import fetch_report

    report = admin.run_plan(fetch_report)
    leader_id = report.controller_id if report.quorum is None else report.quorum.leader_id
    if leader_id < 0:
        raise CommandFailed("the metadata quorum has no leader now")
    return leader_id


def _replicas(admin: AdminClient, topic: str, partition: int) -> list[int]:
    """The leader, then the followers."""
    from ..target import no_partition

    partitions = admin.describe_topics([topic])[topic].partitions
    if partition >= len(partitions):
        raise no_partition(topic, partition, len(partitions))
    leader = partitions[partition].leader
    if leader < 0:
        raise CommandFailed(f"partition {partition} of topic {topic!r} has no leader now")
    return [leader, *(one for one in partitions[partition].replicas if one != leader)]
