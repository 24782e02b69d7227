"""The same for what plans ask: see `probes.py`."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from minikafka.protocol.errors import ErrorCode
from minikafka.protocol.messages import find_coordinator as find_coordinator_api
from minikafka.protocol.messages import list_offsets as list_offsets_api
from minikafka.protocol.messages import metadata as metadata_api
from minikafka.protocol.messages import offset_commit as offset_commit_api
from minikafka.protocol.messages import offset_fetch as offset_fetch_api
from minikafka_client.core.cluster import Cluster
from minikafka_client.errors import CommitFailedError, KafkaError
from minikafka_client.plans.coordinators import find_coordinators
from minikafka_client.plans.group_offsets import Committer, commit_offsets, list_group_offsets
from minikafka_client.plans.offsets import list_offsets
from minikafka_client.plans.plan import Plan
from minikafka_client.plans.topics import describe_topics
from minikafka_client.types import TopicPartition
from tests.client.plans.scripted import Script
from tests.client.reactions import probes
from tests.client.reactions.probes import new_member, told

WHERE = TopicPartition("t", 0)
NO_ERROR = ErrorCode.NONE


def _plan(
    code: ErrorCode,
    start: Callable[[Cluster], Plan[object]],
    request_type: type[Any],
    answer: Callable[[ErrorCode], Any],
    *,
    looks_up: type[Any] | None = None,
    looked_up: str = "refresh",
) -> str:
    """Run a plan whose request is first answered with a code, and then well."""
    script = Script(t=[1]).on(request_type, answer(code), answer(NO_ERROR))
    try:
        script.run(start)
    except KafkaError as error:
        heard = told(error, code)
        return "rejoin" if isinstance(error, CommitFailedError) else heard
    asked = len(script.asked(request_type))
    if asked == 1:
        return "ok"
    assert (asked, script.pauses) == (2, [0])
    first, last = (
        i for i, call in enumerate(script.calls) if isinstance(call.request, request_type)
    )
    between = [call.request for call in script.calls[first + 1 : last]]
    return looked_up if any(isinstance(each, looks_up or ()) for each in between) else "retry"


def list_offsets_(code: ErrorCode) -> str:

    def answer(given: ErrorCode) -> list_offsets_api.Response:
        partition = list_offsets_api.PartitionResponse(
            partition_index=0, error_code=given, timestamp=-1, offset=5
        )
        return list_offsets_api.Response(
            topics=[list_offsets_api.TopicResponse(name="t", partitions=[partition])]
        )

    return _plan(
        code,
        lambda cluster: list_offsets(cluster, {WHERE: -1}),
        list_offsets_api.Request,
        answer,
        looks_up=metadata_api.Request,
    )


def metadata(code: ErrorCode) -> str:

    def answer(given: ErrorCode) -> metadata_api.Response:
        return metadata_api.Response(
            brokers=[metadata_api.Broker(node_id=1, host="h", port=1)],
            topics=[metadata_api.ResponseTopic(error_code=given, name="t", partitions=[])],
        )

    return _plan(
        code, lambda cluster: describe_topics(cluster, ["t"]), metadata_api.Request, answer
    )


def find_coordinator(code: ErrorCode) -> str:
    """The error of a FindCoordinator answer, for a consumer."""
    if code is NO_ERROR:
        return "ok"
    script = Script().on(
        find_coordinator_api.Request,
        find_coordinator_api.Response(
            coordinators=[
                find_coordinator_api.Coordinator(
                    key="g", node_id=1, host="h", port=1, error_code=code, error_message=None
                )
            ]
        ),
    )
    found = script.run(find_coordinators, ["g"])["g"]
    assert isinstance(found, KafkaError)
    consumer = new_member()
    consumer.fail_to_find_coordinator(found)
    if consumer.error is not None:
        return "stop" if told(consumer.error, code) == "fail" else "?"
    consumer.run(consumer.member.expire(consumer.now + 0.01))
    is_at_once = consumer.wants_coordinator
    consumer.run(consumer.member.expire(consumer.now + 2.0))
    assert consumer.wants_coordinator
    return "again" if is_at_once else "retry"


def offset_commit(code: ErrorCode) -> str:
    """One partition's error in an OffsetCommit answer to a member."""

    def answer(given: ErrorCode) -> offset_commit_api.Response:
        partition = offset_commit_api.ResponsePartition(partition_index=0, error_code=given)
        return offset_commit_api.Response(
            topics=[offset_commit_api.ResponseTopic(name="t", partitions=[partition])]
        )

    committer = Committer("g", "m", 3, None, 2)
    return _plan(
        code,
        lambda cluster: commit_offsets(cluster, committer, {WHERE: 5}),
        offset_commit_api.Request,
        answer,
        looks_up=find_coordinator_api.Request,
        looked_up="find",
    )


def offset_fetch(code: ErrorCode) -> str:

    def answer(given: ErrorCode) -> offset_fetch_api.Response:
        partition = offset_fetch_api.GroupPartition(
            partition_index=0, committed_offset=5, metadata="", error_code=given
        )
        topic = offset_fetch_api.ResponseGroupTopic(name="t", partitions=[partition])
        return offset_fetch_api.Response(
            groups=[offset_fetch_api.ResponseGroup(group_id="g", topics=[topic], error_code=0)]
        )

    return _offset_fetch(code, answer)


def offset_fetch_group(code: ErrorCode) -> str:

    def answer(given: ErrorCode) -> offset_fetch_api.Response:
        partition = offset_fetch_api.GroupPartition(
            partition_index=0, committed_offset=5, metadata="", error_code=0
        )
        topic = offset_fetch_api.ResponseGroupTopic(name="t", partitions=[partition])
        topics = [] if given else [topic]
        return offset_fetch_api.Response(
            groups=[offset_fetch_api.ResponseGroup(group_id="g", topics=topics, error_code=given)]
        )

    return _offset_fetch(code, answer)


def _offset_fetch(code: ErrorCode, answer: Callable[[ErrorCode], offset_fetch_api.Response]) -> str:
    return _plan(
        code,
        lambda cluster: list_group_offsets(cluster, "g", [WHERE]),
        offset_fetch_api.Request,
        answer,
        looks_up=find_coordinator_api.Request,
        looked_up="find",
    )


PROBES: dict[str, Callable[[ErrorCode], str]] = {
    "Produce": probes.produce,
    "Init": probes.init_producer_id,
    "Fetch": probes.fetch,
    "replica": probes.fetch_from_replica,
    "session": probes.fetch_session,
    "Offsets": list_offsets_,
    "Meta": metadata,
    "Find": find_coordinator,
    "Join": probes.join_group,
    "Sync": probes.sync_group,
    "Beat": probes.heartbeat,
    "Commit": offset_commit,
    "Stored": offset_fetch,
    "group": offset_fetch_group,
}
"""By the columns of the table: each function is named for its answer."""
