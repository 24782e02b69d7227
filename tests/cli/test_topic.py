"""`minikafka topic` against a live broker."""

from tests.cli.conftest import CommandLine


def test_a_topic_is_created_listed_described_altered_and_deleted(cli: CommandLine) -> None:
    stdout = cli.ok(
        "topic", "create", "life", "--partitions", "3", "--config", "retention.ms=60000"
    )
    assert stdout == "created life: 3 partitions, replication factor 1\n"
    assert "life" in cli.ok("topic", "list").splitlines()

    described = cli.ok("topic", "describe", "life").splitlines()
    assert described[0].startswith("life  id ")
    assert described[0].endswith("retention.ms=60000")
    assert described[1].split()[:3] == ["PARTITION", "LEADER", "EPOCH"]
    assert [line.split()[0] for line in described[2:]] == ["0", "1", "2"]

    stdout = cli.ok(
        "topic", "alter", "life", "--partitions", "5", "--delete-config", "retention.ms",
        "--config", "cleanup.policy=compact",
    )  # fmt: skip
    assert stdout == (
        "altered life: cleanup.policy=compact, retention.ms reset to its default, 5 partitions\n"
    )
    (topic,) = cli.json("topic", "describe", "life")["topics"]
    assert topic["configs"] == {"cleanup.policy": "compact"}
    assert len(topic["partitions"]) == 5

    assert cli.ok("topic", "delete", "life") == "deleted life\n"
    assert "life" not in cli.ok("topic", "list").splitlines()


def test_topic_documents_have_a_fixed_shape(cli: CommandLine) -> None:
    created = cli.json("topic", "create", "shape", "--partitions", "1")
    (entry,) = created["created"]
    assert created == {"created": [entry], "existing": [], "validate_only": False}
    assert entry == {
        "name": "shape",
        "topic_id": entry["topic_id"],
        "partitions": 1,
        "replication_factor": 1,
    }
    assert len(bytes.fromhex(entry["topic_id"])) == 16
    listed = [topic for topic in cli.json("topic", "list")["topics"] if topic["name"] == "shape"]
    assert listed == [{**entry, "is_internal": False}]
    cli.ok("produce", "shape", stdin="a\nb\n")
    described = cli.json("topic", "describe", "shape")
    (replica_log,) = described["topics"][0]["partitions"][0]["replica_logs"]
    assert replica_log.pop("size_bytes") > 0
    assert replica_log == {"node_id": 1, "log_start_offset": 0, "log_end_offset": 2}
    assert described == {
        "topics": [
            {
                "name": "shape",
                "topic_id": entry["topic_id"],
                "is_internal": False,
                "configs": {},
                "partitions": [
                    {
                        "partition": 0,
                        "leader": 1,
                        "leader_epoch": 0,
                        "replicas": [1],
                        "in_sync_replicas": [1],
                        "eligible_leader_replicas": [],
                        "last_known_eligible_leaders": [],
                        "offline_replicas": [],
                        "log_start_offset": 0,
                        "high_watermark": 2,
                        "log_end_offset": 2,
                        "replica_logs": [replica_log],
                    }
                ],
            }
        ]
    }
    altered = cli.json("topic", "alter", "shape", "--config", "retention.ms=1000")
    assert altered == {"name": "shape", "partitions": None, "configs": {"retention.ms": "1000"}}
    assert cli.json("topic", "delete", "shape") == {"deleted": ["shape"], "missing": []}


def test_describe_without_a_name_shows_all_but_internal_topics(
    cli: CommandLine, topic: str
) -> None:
    described = cli.json("topic", "describe")["topics"]
    names = [document["name"] for document in described]
    assert topic in names
    assert names == sorted(names)
    assert not any(document["is_internal"] for document in described)
    assert topic in cli.ok("topic", "describe")


def test_an_existing_topic_is_a_failure_without_if_not_exists(cli: CommandLine, topic: str) -> None:
    line = cli.fails("topic", "create", topic)
    assert line.startswith("minikafka topic create: ")
    assert topic in line
    assert "TOPIC_ALREADY_EXISTS" in line
    assert cli.ok("topic", "create", topic, "--if-not-exists") == f"{topic} already exists\n"


def test_one_topic_that_cannot_be_created_does_not_stop_the_others(cli: CommandLine) -> None:
    result = cli.run("topic", "create", "good-one", "bad one", "bad/two", "good-two")
    assert result.exit_code == 1
    assert [line.split(":")[0] for line in result.stdout.splitlines()] == [
        "created good-one",
        "created good-two",
    ]
    errors = result.stderr.splitlines()
    assert "'bad one'" in errors[0]
    assert errors[1].startswith("minikafka topic create: topic 'bad/two'")
    assert len(errors) == 2


def test_validate_only_creates_nothing(cli: CommandLine) -> None:
    stdout = cli.ok("topic", "create", "perhaps", "--validate-only", "--partitions", "2")
    assert stdout == "could create perhaps: 2 partitions, replication factor 1\n"
    assert "perhaps" not in cli.ok("topic", "list").splitlines()


def test_an_unknown_topic_comes_with_the_nearest_names(cli: CommandLine) -> None:
    cli.ok("topic", "create", "invoices", "--if-not-exists")
    for words in (["describe", "invioces"], ["delete", "Invoice"], ["alter", "voices"]):
        option = ["--partitions", "2"] if words[0] == "alter" else []
        line = cli.fails("topic", *words, *option)
        assert line == (
            f"minikafka topic {words[0]}: there is no topic {words[1]!r}; did you mean invoices?"
        )
    line = cli.fails("topic", "describe", "zzzzz")
    assert line.endswith("create it with `minikafka topic create zzzzz`")


def test_deleting_a_missing_topic_succeeds_with_if_exists(cli: CommandLine, topic: str) -> None:
    stdout = cli.ok("topic", "delete", "never-was", topic, "--if-exists")
    assert stdout == f"deleted {topic}\nnever-was does not exist\n"


def test_a_setting_that_does_not_exist_is_refused_by_name(cli: CommandLine, topic: str) -> None:
    line = cli.fails("topic", "alter", topic, "--config", "retention.sm=1")
    assert "retention.sm" in line
    assert "INVALID_CONFIG" in line


def test_partitions_only_grow(cli: CommandLine, topic: str) -> None:
    line = cli.fails("topic", "alter", topic, "--partitions", "2")
    assert "INVALID_PARTITIONS" in line


def test_internal_topics_are_listed_on_request(cli: CommandLine, topic: str) -> None:
    assert "__consumer_offsets" not in cli.ok("topic", "list").splitlines()
    names = [entry["name"] for entry in cli.json("topic", "list", "--internal")["topics"]]
    assert topic in names
