"""Every API asked by clients with and without rights; Apache Kafka's answers are the judge.

`apache_kafka.json` has them; ``make acl-table`` asks Apache Kafka again. `DIFFERENCES` has the rows
in which this broker answers otherwise on purpose, and why.
"""

from __future__ import annotations

import json
from collections.abc import AsyncGenerator, Mapping
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, Final

from minikafka.broker.handlers import API_TABLE
from minikafka.broker.handlers.access import RULES
from minikafka.protocol.api import ApiKey, response_class
from minikafka.security.principal import Principal
from minikafka.testing.wire import WireClosedError
from tests.broker.handlers.access.cases import CASES, PRINCIPALS, Case
from tests.broker.handlers.access.outcome import outcome_of
from tests.broker.handlers.access.scene import IDS, STEPS, SUPER_USER, TOPIC
from tests.kit.in_process import BrokerUnderTest, running_broker
from tests.kit.wire import WireClient

GOLDEN: Final = Path(__file__).with_name("apache_kafka.json")
_NOT_YET = "Apache Kafka 4.4 does not serve this version"
_FIRST = "the first answer of a share session names what was asked for, as in a fetch session"
_NO_GROUP = "the group is not a share group, which is an error of the group here"
DIFFERENCES: Final[dict[tuple[str, str], str]] = {
    **{("INIT_PRODUCER_ID 6 with two-phase commit", who): _NOT_YET for who in PRINCIPALS},
    **{("SHARE_FETCH 1", who): _FIRST for who in ("worker", "owner")},
    **{
        ("DESCRIBE_SHARE_GROUP_OFFSETS 0", who): _NO_GROUP
        for who in ("describer", "worker", "half", "owner")
    },
}
SETTINGS: Final = (
    "authorizer.class.name=standard",
    f"super.users=User:{SUPER_USER}",
    "auto.create.topics.enable=true",
    "offsets.topic.num.partitions=1",
    "transaction.state.log.num.partitions=1",
)


async def ask(client: WireClient, case: Case, ids: Mapping[str, bytes]) -> Any:
    return await client.ask(case.request(ids), case.version, response_class(case.api))


@asynccontextmanager
async def scene(data_dir: Path) -> AsyncGenerator[tuple[BrokerUnderTest, dict[str, bytes]]]:
    """A broker with an authorizer, and what clients may ask for."""
    async with running_broker(data_dir, *SETTINGS) as under_test:
        root = under_test.connect(Principal("User", SUPER_USER))
        await ask(root, TOPIC, {})
        topic_ids = {one.name: one.topic_id for one in (await ask(root, IDS, {})).topics}
        for step in STEPS:
            await ask(root, step, topic_ids)
        yield under_test, topic_ids


def test_there_is_a_row_for_every_api() -> None:
    assert {case.api for case in CASES} == {ApiKey(one) for one in API_TABLE}


def test_every_api_has_a_rule() -> None:
    assert set(API_TABLE).issubset(RULES)
    for handler in API_TABLE.values():
        assert callable(handler.guarded)


async def test_every_api_answers_every_client_as_apache_kafka_does(tmp_path: Path) -> None:
    expected: dict[str, dict[str, list[str]]] = json.loads(GOLDEN.read_text())
    found: dict[str, dict[str, list[str]]] = {}
    async with scene(tmp_path) as (under_test, topic_ids):
        for case in CASES:
            row = found[case.name] = {}
            for who in PRINCIPALS:
                client = under_test.connect(Principal("User", who))
                try:
                    row[who] = outcome_of(await ask(client, case, topic_ids), topic_ids)
                except WireClosedError:
                    row[who] = ["closed"]
    assert found.keys() == expected.keys()
    differing = {
        (name, who): (found[name][who], answer)
        for name, row in expected.items()
        for who, answer in row.items()
        if found[name][who] != answer
    }
    assert differing.keys() == DIFFERENCES.keys(), differing
