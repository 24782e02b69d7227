"""Lets a scripted broker answer one request with an error code, and returns what the client does.

What a client can do, in words that the table (`table.py`) uses:

    ok       it is no error
    again    the same request is sent immediately
    retry    the same request is sent after a pause
    refresh  metadata is fetched, and the same request goes to the current leader
    find     the coordinator is looked up, and the same request goes to it
    next     nothing; the next heartbeat asks again
    rejoin   the member joins again with its id
    new      the member joins again as a new one; what it owned is lost
    adopt    the member joins with the id that the answer gives it
    split    the batch is sent in two halves
    epoch    the partition's sequences restart in a new epoch
    reset    auto.offset.reset decides where to continue
    leader   the leader is asked instead of the replica
    fail     the application gets an error: of the record, partition, call or commit
    stop     the application gets an error, and the consumer cannot be a member
"""

from __future__ import annotations

from minikafka.protocol.errors import ErrorCode
from minikafka.protocol.messages import heartbeat as heartbeat_api
from minikafka.protocol.messages import join_group as join_group_api
from minikafka.protocol.messages import sync_group as sync_group_api
from minikafka_client.core.group_member import State
from minikafka_client.core.membership import Answered, Polled, Send
from minikafka_client.core.partition_reader import Phase
from minikafka_client.core.producer_batch import BatchState
from minikafka_client.errors import KafkaError, NoOffsetError
from minikafka_client.types import TopicPartition
from tests.client.core import fetcher_world, group_world, sender_world

WHERE = TopicPartition("t", 0)
NO_ERROR = ErrorCode.NONE


# --- producing -----------------------------------------------------------------------------------


def _engine() -> sender_world.World:
    """A producer whose first batch is stored, and whose second one is with the broker."""
    world = sender_world.World(partition_count=1)
    world.send(0, b"first")
    world.expire()
    world.settle()
    for number in range(4):
        world.send(0, b"%d" % number)
    world.expire()
    world.wants_metadata = False
    return world


def produce(code: ErrorCode) -> str:
    world = _engine()
    [batch] = {handle[0] for handle in world.handles[1:]}
    queue = world.accumulator.queues[sender_world.TOPIC, 0]
    epoch = queue.producer_epoch
    world.process(1, code)
    world.answer(1)
    if batch.state is BatchState.DONE:
        return "ok" if batch.error is None else told(batch.error, code)
    if batch.state is BatchState.SPLIT:
        return "split"
    if world.wants_metadata:
        return "refresh"
    world.expire(2.0)
    assert len(world.in_flight[1]) == 1, "it is sent again"
    return "epoch" if queue.producer_epoch > epoch else "retry"


def init_producer_id(code: ErrorCode) -> str:
    world = sender_world.World(partition_count=1)
    world.send(0, b"v")
    world.expire()
    assert world.wants_producer_id
    if code is NO_ERROR:
        world.grant_producer_id()
        return "ok"
    world.refuse_producer_id(code)
    [(batch, _, _)] = world.handles
    if batch.state is BatchState.DONE:
        assert batch.error is not None
        return told(batch.error, code)
    world.expire(2.0)
    assert world.wants_producer_id
    return "retry"


# --- fetching ------------------------------------------------------------------------------------


def _fetching() -> fetcher_world.World:
    world = fetcher_world.World(partition_count=1)
    world.assign(0)
    world.recover()
    return world


def _after_fetch(world: fetcher_world.World, code: ErrorCode, node: int = 1) -> str:
    reader = world.reader(0)
    if reader.phase is Phase.FAILED:
        assert reader.error is not None
        return told(reader.error, code)
    if reader.phase is Phase.RESETTING:
        return "reset"
    if reader.fetch_offset > 0:
        return "ok"
    if node != 1 and world.in_flight[1]:
        return "leader"
    if world.in_flight[node]:
        return "again"
    wants_metadata = world.wants_metadata
    world.expire(2.0)
    assert world.in_flight[1], "the leader is asked again"
    return "refresh" if wants_metadata else "retry"


def fetch(code: ErrorCode) -> str:
    """One partition's error in a Fetch answer of its leader."""
    world = _fetching()
    world.answer(1, [code])
    return _after_fetch(world, code)


def fetch_from_replica(code: ErrorCode) -> str:
    """One partition's error in a Fetch answer of the replica that the leader named."""
    world = fetcher_world.World(partition_count=1)
    world.followers, world.nearest = {2}, 2
    world.logs[0].truncate(0)
    world.assign(0)
    world.recover()
    world.answer(1)
    world.recover()
    assert world.in_flight[2]
    for _ in range(20):
        world.logs[0].append()
    world.answer(2, [code])
    return _after_fetch(world, code, 2)


def fetch_session(code: ErrorCode) -> str:
    """The error of a whole Fetch answer, which is an incremental one."""
    world = _fetching()
    world.logs[0].truncate(0)
    world.answer(1)
    [waiting] = world.in_flight[1]
    assert waiting.request.session_epoch == 1
    world.logs[0].append()
    world.answer(1, error_code=code)
    return _after_fetch(world, code)


# --- groups --------------------------------------------------------------------------------------


def new_member(instance_id: str | None = None) -> group_world.Consumer:
    world = group_world.World(t=2)
    consumer = group_world.Consumer(world, "a", ("range",), instance_id=instance_id)
    world.consumers.append(consumer)
    consumer.subscribe("t")
    return consumer


def _stable() -> group_world.Consumer:
    consumer = new_member()
    consumer.world.settle()
    return consumer


def _after_group(consumer: group_world.Consumer, member_id: str, code: ErrorCode) -> str:
    """What a member does next."""
    if consumer.error is not None or consumer.member.state is State.FAILED:
        assert consumer.error is not None
        return "stop" if code is NO_ERROR or told(consumer.error, code) == "fail" else "?"
    if consumer.wants_coordinator or consumer.member.coordinator is None:
        consumer.run(consumer.member.expire(consumer.now + 2.0))
        assert consumer.wants_coordinator
        return "find"
    consumer.poll()
    is_at_once = bool(consumer.unanswered)
    if consumer.member.state is State.STABLE:
        return "ok" if code is NO_ERROR else "next"
    if not is_at_once:
        consumer.world.shell.advance(2.0)
        consumer.run(consumer.member.expire(consumer.now))
    assert consumer.member.state is State.JOINING, consumer.member.state
    if consumer.member.member_id != member_id:
        return "adopt" if consumer.member.member_id else "new"
    if consumer.lost:
        return "new"
    return "rejoin" if is_at_once else "retry"


def join_group(code: ErrorCode) -> str:
    consumer = new_member()
    consumer.recover()
    token, _ = consumer.unanswered.popleft()
    response = join_group_api.Response(
        error_code=code,
        generation_id=1,
        protocol_name="range",
        leader="other",
        member_id="given",
        members=[],
    )
    consumer.feed(Answered(token, response))
    if code is NO_ERROR:
        assert consumer.member.state is State.SYNCING
        return "ok"
    return _after_group(consumer, "", code)


def sync_group(code: ErrorCode) -> str:
    consumer = _stable()
    member_id = consumer.member.member_id
    consumer.feed(Polled(), _heard(consumer, ErrorCode.REBALANCE_IN_PROGRESS))
    consumer.poll()
    token, _ = consumer.unanswered.popleft()
    joined = join_group_api.Response(
        error_code=0,
        generation_id=2,
        protocol_name="range",
        leader="other",
        member_id=member_id,
        members=[],
    )
    consumer.feed(Answered(token, joined))
    token, _ = consumer.unanswered.popleft()
    consumer.revoked = 0
    assignment = b"\0\0\0\0\0\0\0\0\0\0"
    consumer.feed(Answered(token, sync_group_api.Response(error_code=code, assignment=assignment)))
    return _after_group(consumer, member_id, code)


def _heard(consumer: group_world.Consumer, code: ErrorCode) -> Answered:
    """The answer to the heartbeat that is due next."""
    consumer.world.shell.advance(3.1)
    [beat] = [s for s in consumer.member.expire(consumer.now) if isinstance(s, Send)]
    return Answered(beat.token, heartbeat_api.Response(error_code=code))


def heartbeat(code: ErrorCode) -> str:
    consumer = _stable()
    member_id = consumer.member.member_id
    consumer.feed(_heard(consumer, code))
    return _after_group(consumer, member_id, code)


def told(error: KafkaError, code: ErrorCode) -> str:
    """An error for the application names Kafka's code, or is one of the client's own."""
    is_named = code.name in str(error) or error.code is code or isinstance(error, NoOffsetError)
    assert is_named, f"{code.name} became {error!r}"
    return "fail"
