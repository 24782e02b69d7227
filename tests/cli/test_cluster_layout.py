"""The layout of a cluster: ports, voters, and the command of each node."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from minikafka.broker.settings.config import load_config
from minikafka.cli.cluster.files import Cluster, ClusterFiles
from minikafka.cli.cluster.layout import (
    NodeOptions,
    lay_out,
    names_in,
    quorum_of,
    replication_settings,
    serve_command,
    voters_of,
)
from minikafka.cli.failure import CommandFailed


def free_ports() -> Callable[[], int]:
    return iter(range(20_001, 30_000)).__next__


def addresses(cluster: Cluster) -> list[tuple[str, str]]:
    return [(node.listener, node.internal_listener) for node in cluster.nodes]


def test_an_odd_number_votes() -> None:
    assert [voters_of(brokers) for brokers in range(1, 9)] == [1, 1, 3, 3, 5, 5, 5, 5]


def test_ports_follow_the_first() -> None:
    cluster = lay_out(None, 3, 9092, free_ports())
    assert addresses(cluster) == [
        ("127.0.0.1:9092", "127.0.0.1:19092"),
        ("127.0.0.1:9093", "127.0.0.1:19093"),
        ("127.0.0.1:9094", "127.0.0.1:19094"),
    ]
    assert cluster.voters == [1, 2, 3]
    assert lay_out(None, None, None, free_ports()) == cluster


def test_ids_may_begin_with_0() -> None:
    cluster = lay_out(None, 3, 9092, free_ports(), first_id=0)
    assert [node.node_id for node in cluster.nodes] == cluster.voters == [0, 1, 2]
    assert quorum_of(cluster).startswith("0@127.0.0.1:19092,1@")
    grown = lay_out(cluster, 4, None, free_ports())
    assert [node.node_id for node in grown.nodes] == [0, 1, 2, 3]
    assert lay_out(cluster, None, None, free_ports(), first_id=0) == cluster
    with pytest.raises(CommandFailed, match="whose first broker is 0; leave out --first-id 1"):
        lay_out(cluster, None, None, free_ports(), first_id=1)


def test_internal_ports_of_high_ports_are_below_them() -> None:
    cluster = lay_out(None, 2, 60_000, free_ports())
    assert addresses(cluster)[1] == ("127.0.0.1:60001", "127.0.0.1:50001")
    with pytest.raises(CommandFailed, match="no port 65536"):
        lay_out(None, 3, 65_534, free_ports())


def test_port_0_takes_free_ones() -> None:
    cluster = lay_out(None, 2, 0, free_ports())
    assert addresses(cluster) == [
        ("127.0.0.1:20001", "127.0.0.1:20002"),
        ("127.0.0.1:20003", "127.0.0.1:20004"),
    ]


def test_a_single_broker_has_no_internal_listener() -> None:
    alone = lay_out(None, 1, 9092, free_ports())
    assert addresses(alone) == [("127.0.0.1:9092", "")]
    grown = lay_out(alone, 2, None, free_ports())
    assert addresses(grown)[0] == ("127.0.0.1:9092", "127.0.0.1:20001")


def test_a_cluster_keeps_its_ports_and_its_voters() -> None:
    before = lay_out(None, 3, 0, free_ports())
    assert lay_out(before, None, None, free_ports()) == before
    grown = lay_out(before, 5, None, iter(range(25_000, 26_000)).__next__)
    assert addresses(grown)[:3] == addresses(before)
    assert addresses(grown)[3] == ("127.0.0.1:25000", "127.0.0.1:25001")
    assert grown.voters == [1, 2, 3]
    moved = lay_out(before, None, 7000, free_ports())
    assert addresses(moved)[2] == ("127.0.0.1:7002", "127.0.0.1:17002")


def test_a_cluster_does_not_shrink() -> None:
    before = lay_out(None, 3, 0, free_ports())
    with pytest.raises(CommandFailed, match="give --brokers 3 or more"):
        lay_out(before, 2, None, free_ports())


def words_of(tmp_path: Path, brokers: int, node_id: int, **options: object) -> list[str]:
    cluster = lay_out(None, brokers, 9092, free_ports())
    wanted = NodeOptions(
        **{
            "replication_factor": 3,
            "config_file": None,
            "assignments": (),
            "log_level": "info",
            **options,
        }  # type: ignore[arg-type]  # the tests name the fields
    )
    return serve_command(cluster, cluster.node(node_id), ClusterFiles(tmp_path), wanted)


def value_of(words: list[str], option: str) -> list[str]:
    return [words[index + 1] for index, word in enumerate(words) if word == option]


def test_each_node_gets_its_id_and_the_voters(tmp_path: Path) -> None:
    words = words_of(tmp_path, 4, 4)
    assert value_of(words, "--node-id") == ["4"]
    assert value_of(words, "--listen") == ["127.0.0.1:9095"]
    assert value_of(words, "--data-dir") == [str(tmp_path / "node-4" / "data")]
    (quorum,) = value_of(words, "--quorum")
    assert quorum == "1@127.0.0.1:19092,2@127.0.0.1:19093,3@127.0.0.1:19094"
    assert "minikafka.internal.listener=127.0.0.1:19095" in value_of(words, "--set")
    assert value_of(words_of(tmp_path, 1, 1), "--quorum") == []


def test_three_copies_and_acks_all_waits_for_two(tmp_path: Path) -> None:
    settings = replication_settings(3)
    assert settings["min.insync.replicas"] == "2"
    assert [replication_settings(n)["min.insync.replicas"] for n in (1, 2, 5)] == ["1", "1", "4"]
    words = words_of(tmp_path, 3, 1, assignments=("num.partitions=7",))
    given = value_of(words, "--set")
    config = load_config(None, [one for one in given if "internal" not in one], {})
    assert config.default_replication_factor == 3
    assert config.min_insync_replicas == 2
    assert config.offsets_topic_replication_factor == 3
    assert config.num_partitions == 7


@pytest.mark.parametrize(
    "text", ['"min.insync.replicas" = 1\n', "[min.insync]\nreplicas = 1\n"], ids=["flat", "nested"]
)
def test_the_users_own_settings_win(tmp_path: Path, text: str) -> None:
    path = tmp_path / "broker.toml"
    path.write_text(text)
    assert names_in(path) == {"min.insync.replicas"}
    words = words_of(tmp_path, 3, 1, config_file=path)
    assert value_of(words, "--config") == [str(path)]
    assert not any(one.startswith("min.insync") for one in value_of(words, "--set"))
    assert "default.replication.factor=3" in value_of(words, "--set")
    last = value_of(words_of(tmp_path, 3, 1, assignments=("min.insync.replicas=3",)), "--set")
    assert (
        load_config(None, [one for one in last if "internal" not in one], {}).min_insync_replicas
        == 3
    )


def test_errors_in_a_settings_file_are_left_to_the_broker(tmp_path: Path) -> None:
    path = tmp_path / "broker.toml"
    path.write_text("not = = toml")
    assert names_in(path) == set()
    assert names_in(tmp_path / "missing.toml") == set()
    assert names_in(None) == set()


def test_the_quorum_names_voters_only() -> None:
    cluster = lay_out(None, 2, 9092, free_ports())
    assert quorum_of(cluster) == "1@127.0.0.1:19092"
