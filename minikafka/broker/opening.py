"""Opens a broker: locks the data directory, recovers the logs, replays the metadata."""

from __future__ import annotations

import random
from pathlib import Path

from ..consensus.config import QuorumConfig
from ..data_class import DataClass
from ..metadata.records import MetadataLogError, decode_record
from ..metadata.setting_table import BrokerConfig
from ..metadata.settings import InvalidSettingError
from ..security.authorizer import StandardAuthorizer
from ..storage.disk import Disk, RealDisk
from ..storage.errors import LogError
from ..storage.log_directory import LogDirectory
from ..storage.record_log import RecordLog
from .broker import Broker
from .control.first_users import FirstUser
from .control.metadata_store import MetadataStore
from .handlers.controller_api import ForwardedRequests
from .quorum.quorum import Quorum
from .security.authorization import Authorization, authorizer_of
from .security.internal import internal_security
from .settings.listeners import listeners_of
from .settings.topology import Topology, topology_of, with_voters
from .system.clock import Clock, SystemClock
from .system.descriptors import descriptor_budget, raise_limit
from .system.randomness import RandomIds
from .system.start_error import StartError
from .system.workers import RunInThread, run_in_worker_thread

OLD_METADATA_FILE = "metadata.log"
"""The metadata log of versions without a quorum."""

_HEARTBEATS_PER_ELECTION_TIMEOUT = 4


class BrokerOptions(DataClass):
    """The options of ``minikafka serve``.

    Attributes:
        config: the settings; port 0 in ``listeners`` picks a free one.
        data_dir: where the logs are; created if it does not exist.
        is_ephemeral: the data need not survive, so nothing is synced.
        first_users: are created before clients can connect, if they do not exist.
    """

    config: BrokerConfig
    data_dir: Path
    is_ephemeral: bool = False
    first_users: tuple[FirstUser, ...] = ()


def _prepare_to_serve(
    broker: Broker, options: BrokerOptions, authorizer: StandardAuthorizer | None
) -> None:
    """Give it what it decides with, and a broker its logs.

    Raises:
        StartError: clients could not log in on one of its listeners.
        LogError: a log cannot be opened.
    """
    _check_logins(broker)
    broker.forwarder.api = ForwardedRequests(broker)
    broker.first_users = options.first_users
    if authorizer is not None:
        _authorize(broker, authorizer)
    if broker.node.topology.is_broker:
        broker.replicas.open_logs()


def open_broker(
    options: BrokerOptions,
    *,
    disk: Disk | None = None,
    rng: random.Random | None = None,
    clock: Clock | None = None,
    run_in_thread: RunInThread = run_in_worker_thread,
) -> Broker:
    """Lock the data directory, recover what is in it, and build the broker.

    Args:
        options: the settings and the directory.
        disk: holds the data directory; the machine's disk unless a simulation has its own.
        rng: the source of all random choices; the system's generator by default.
        clock: the machine's clocks by default.
        run_in_thread: runs blocking functions; in worker threads by default.

    Raises:
        StartError: the directory is in use, belongs to another node, or cannot be read.
    """
    rng = rng or random.SystemRandom()
    path = str(options.data_dir)
    disk = disk or RealDisk()
    raise_limit()
    try:
        topology = topology_of(options.config)
        internal = internal_security(options.config)
        authorizer = authorizer_of(options.config)
        directory = LogDirectory.open(
            disk,
            path,
            # In a cluster the first active controller chooses it.
            new_cluster_id="" if topology.is_clustered else RandomIds(rng).cluster_id(),
            node_id=options.config.node_id,
            open_files_max=descriptor_budget().files,
        )
        if isinstance(disk, RealDisk):
            disk.make_room = directory.files.make_room
    except InvalidSettingError as error:
        raise StartError(str(error)) from None
    except (LogError, OSError) as error:
        raise StartError(f"cannot use the data directory {path}: {error}") from None
    try:
        quorum = _open_quorum(disk, path, options, topology, rng, run_in_thread)
        topology = _with_recorded_voters(topology, quorum)
        store = _replay(disk, path, quorum, directory.cluster_id)
        if not topology.is_clustered:
            _check_replicas(store, path, topology.node_id)
        broker = Broker(
            options.config,
            topology,
            store,
            quorum,
            directory,
            clock or SystemClock(),
            rng,
            run_in_thread,
            internal,
        )
        _prepare_to_serve(broker, options, authorizer)
    except StartError:
        directory.close(clean=False)
        raise
    except (LogError, OSError, MetadataLogError) as error:
        directory.close(clean=False)
        raise StartError(f"cannot recover the data directory {path}: {error}") from error
    return broker


def _authorize(broker: Broker, authorizer: StandardAuthorizer) -> None:
    """Let the authorizer decide about everything that clients ask for."""
    store = broker.store
    broker.authorization = Authorization(authorizer, lambda: store.image.access_control.index)


def _check_logins(broker: Broker) -> None:
    """Check that clients can log in on every listener that asks them to.

    Raises:
        StartError: the settings of a listener are incomplete, or wrong.
    """
    if not broker.node.topology.is_broker:
        return
    try:
        for listener in listeners_of(broker.config):
            if listener.protocol.is_sasl:
                broker.sasl.of_listener(listener)
    except InvalidSettingError as error:
        raise StartError(str(error)) from None


def _open_quorum(
    disk: Disk,
    path: str,
    options: BrokerOptions,
    topology: Topology,
    rng: random.Random,
    run_in_thread: RunInThread,
) -> Quorum:
    timeout_s = options.config.controller_quorum_election_timeout_ms / 1000
    config = QuorumConfig(
        topology.node_id,
        frozenset(topology.voters),
        election_timeout_s=timeout_s,
        heartbeat_s=timeout_s / _HEARTBEATS_PER_ELECTION_TIMEOUT,
    )
    return Quorum.open(
        disk,
        path,
        config,
        dice=rng.uniform,
        new_directory_id=RandomIds(rng).directory_id,
        sync=not options.is_ephemeral,
        run_in_thread=run_in_thread,
        snapshot_size_bytes_min=options.config.metadata_log_max_record_bytes_between_snapshots,
    )


def _with_recorded_voters(topology: Topology, quorum: Quorum) -> Topology:
    """The topology with the voters that the log records, if it does.

    Raises:
        StartError: there are other ones, and this node could not reach them.
    """
    recorded = quorum.recorded_voters
    if recorded is None:
        return topology
    if not topology.is_clustered and not quorum.is_alone:
        known = ",".join(f"{one.node_id}@{one.host}:{one.port}" for one in recorded.voters)
        raise StartError(
            "this node belongs to a cluster with other controllers, and starts alone; start it "
            f"with --quorum {known}"
        )
    return with_voters(topology, {one.node_id: (one.host, one.port) for one in recorded.voters})


def _replay(disk: Disk, path: str, quorum: Quorum, cluster_id: str) -> MetadataStore:
    store = MetadataStore(cluster_id)
    store.may_have_lost = quorum.may_have_lost
    store.write_restored = quorum.restore
    stored = quorum.stored()
    store.replay_stored(stored.snapshot)
    store.replay_stored(payload for _, payload in stored.entries)
    if quorum.is_alone and not store.image.version:
        _take_over(disk, f"{path}/{OLD_METADATA_FILE}", store)
    return store


def _check_replicas(store: MetadataStore, path: str, node_id: int) -> None:
    """Check that a broker that starts alone has no replicas on other brokers.

    Raises:
        StartError: there are some.
    """
    replicas = {
        broker_id
        for topic in store.image.topics.values()
        for partition in topic.partitions
        for broker_id in partition.replicas
    }
    others = sorted(replicas - {node_id})
    if others:
        raise StartError(
            f"the data directory {path} belongs to a cluster: partitions have replicas on brokers "
            f"{', '.join(map(str, others))}, but this broker (node.id={node_id}) starts alone; "
            f"start it with the --quorum and --node-id that it had"
        )


def _take_over(disk: Disk, path: str, store: MetadataStore) -> None:
    """Import the metadata log of a version without a quorum."""
    if not disk.exists(path):
        return
    old = RecordLog.open(disk, path)
    try:
        store.restore([decode_record(payload) for payload in old.records()])
        store.may_have_lost = old.may_have_lost
    finally:
        old.close()
    disk.rename(path, f"{path}.taken-over")
