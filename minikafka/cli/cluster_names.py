"""Which nodes the words of a command mean: 2, all, controller, leader:orders, followers:orders."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Final, TypeVar

from .cluster_files import ClusterFiles
from .cluster_view import is_paused
from .failure import CommandFailed

if TYPE_CHECKING:
    from minikafka_client.sync import AdminClient

    _Found = TypeVar("_Found")

ALL: Final = "all"
CONTROLLER: Final = "controller"
LEADER: Final = "leader"
FOLLOWERS: Final = "followers"
_PATIENCE_MS: Final = 3000


def node_ids_of(files: ClusterFiles, words: Sequence[str], *, is_running: bool) -> list[int]:
    """The nodes' numbers, each once.

    Args:
        files: the cluster's.
        words: what the user wrote.
        is_running: whether `all` means those that run, or those that do not.

    Raises:
        CommandFailed: a word means nobody, or the cluster does not say whom.
    """
    found: dict[int, None] = {}
    for word in words:
        if word == ALL:
            nodes = files.read_existing().nodes
            chosen = [one.node_id for one in nodes if (one.pid is not None) is is_running]
            if not chosen:
                raise CommandFailed(f"no node {'runs' if is_running else 'is dead'}")
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
        f"{word!r} is no node; give a number, {ALL}, {CONTROLLER}, {LEADER}:TOPIC[:PARTITION] or "
        f"{FOLLOWERS}:TOPIC[:PARTITION]"
    )


def _ask(files: ClusterFiles, question: Callable[[AdminClient], _Found]) -> _Found:
    from minikafka_client import KafkaError
    from minikafka_client.sync import AdminClient

    files.require_supervisor()
    bootstrap = ",".join(
        node.listener
        for node in files.read_existing().nodes
        if node.pid is not None and not is_paused(node.pid)
    )
    if not bootstrap:
        raise CommandFailed("no broker runs that could say who leads; name a node by its number")
    try:
        with AdminClient(
            bootstrap,
            client_id="minikafka-cli",
            connect_timeout_ms=_PATIENCE_MS,
            request_timeout_ms=_PATIENCE_MS,
            api_timeout_ms=_PATIENCE_MS,
        ) as admin:
            return question(admin)
    except KafkaError as error:
        raise CommandFailed(str(error)) from None


def _controller(admin: AdminClient) -> int:
    from .cluster_picture import take_picture

    picture = admin.run_plan(take_picture)
    leader_id = picture.controller_id if picture.quorum is None else picture.quorum.leader_id
    if leader_id < 0:
        raise CommandFailed("nobody leads the metadata quorum now")
    return leader_id


def _replicas(admin: AdminClient, topic: str, partition: int) -> list[int]:
    """The leader, then the others."""
    partitions = admin.describe_topics([topic])[topic].partitions
    if partition >= len(partitions):
        raise CommandFailed(f"topic {topic!r} has {len(partitions)} partitions, no {partition}")
    leader = partitions[partition].leader
    if leader < 0:
        raise CommandFailed(f"nobody leads partition {partition} of topic {topic!r} now")
    return [leader, *(one for one in partitions[partition].replicas if one != leader)]
