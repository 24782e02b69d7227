"""Members of the share group: sessions with brokers, and what they say about records."""

from __future__ import annotations

from collections import defaultdict
from functools import partial
from typing import Any, NamedTuple, cast

import trio

from minikafka.broker.control.request_context import ClientConnection
from minikafka.broker.handlers import share_acknowledge as acknowledge_handler
from minikafka.broker.handlers import share_fetch as fetch_handler
from minikafka.coordinator.share.share_partition import AcknowledgeType
from minikafka.lab.simulation.kit.invariants import require
from minikafka.protocol.errors import ErrorCode
from minikafka.protocol.messages import share_acknowledge, share_fetch
from minikafka.testing.simulation.network import pass_time
from tests.simulation.shares.truth import LOCK_S, words_of
from tests.simulation.shares.world import GROUP, TOPIC_ID, Node, World

_ACCEPT, _RELEASE = AcknowledgeType.ACCEPT, AcknowledgeType.RELEASE
_REJECT, _RENEW, _GAP = AcknowledgeType.REJECT, AcknowledgeType.RENEW, AcknowledgeType.GAP
_STORMY_WORDS = (_ACCEPT,) * 6 + (_RELEASE,) * 2 + (_REJECT, _RENEW, None)
"""None: it forgets the record."""


class Verdict(NamedTuple):
    """What a member wants to say, once it is due."""

    due: float
    offset: int
    word: AcknowledgeType


class _Session:
    def __init__(self) -> None:
        self.epoch = 0
        self.connection = ClientConnection()
        self.verdicts: defaultdict[int, list[Verdict]] = defaultdict(list)


class Member:
    """A consumer of the group, which reads all partitions."""

    def __init__(self, world: World, name: str) -> None:
        self._world = world
        self.name = name
        self.is_alive = True
        self._sessions = {node_id: _Session() for node_id in world.nodes}
        self._scope = trio.CancelScope()

    async def run(self) -> None:
        dice = self._world.dice
        with self._scope:
            while self.is_alive:
                await pass_time(dice.uniform(0.01, 0.3))
                node = self._world.nodes[dice.choice(sorted(self._world.nodes))]
                if dice.random() < 0.3:
                    await self._acknowledge(node)
                else:
                    await self._fetch(node)

    async def leave(self) -> None:
        """Close all sessions, as a consumer does that is closed."""
        self.is_alive = False
        self._scope.cancel()
        for node in self._world.nodes.values():
            if self._sessions[node.node_id].epoch:
                await self._acknowledge(node, is_last=True)

    def die(self) -> None:
        """Without a word; brokers may notice that its connections are gone."""
        self.is_alive = False
        self._scope.cancel()
        for session in self._sessions.values():
            self._lose(session)

    def _lose(self, session: _Session) -> None:
        """A connection is gone; whether the broker notices is another matter."""
        connection, session.connection = session.connection, ClientConnection()
        session.epoch = 0
        if self._world.is_calm or self._world.dice.random() < 0.7:
            self._world.after(self._world.dice.uniform(0, 1), _end, connection)

    # --- requests --------------------------------------------------------------------------------

    def _words(self, session: _Session, index: int) -> list[tuple[int, AcknowledgeType]]:
        now = trio.current_time()
        verdicts = session.verdicts[index]
        session.verdicts[index] = [one for one in verdicts if one.due > now]
        words = {one.offset: one.word for one in verdicts if one.due <= now}
        for offset, word in words.items():
            if word is _RENEW:
                again = now + self._world.dice.uniform(0.1, LOCK_S)
                session.verdicts[index].append(Verdict(again, offset, self._word() or _RELEASE))
        return sorted(words.items())

    def _word(self) -> AcknowledgeType | None:
        return _ACCEPT if self._world.is_calm else self._world.dice.choice(_STORMY_WORDS)

    async def _fetch(self, node: Node) -> None:
        session, dice = self._sessions[node.node_id], self._world.dice
        topic = share_fetch.Topic(topic_id=TOPIC_ID, partitions=[])
        has_renewal = False
        for truth in self._world.truth.partitions:
            is_led = truth.leader == node.node_id or dice.random() < 0.1
            words = self._words(session, truth.index) if session.epoch else []
            has_renewal |= any(word is _RENEW for _, word in words)
            if is_led or words:
                batches = _batches(share_fetch.AcknowledgementBatch, words)
                topic.partitions.append(
                    share_fetch.Partition(
                        partition_index=truth.index, acknowledgement_batches=batches
                    )
                )
        if not topic.partitions:
            return
        request = share_fetch.Request(
            group_id=GROUP,
            member_id=self.name,
            share_session_epoch=session.epoch,
            max_wait_ms=0 if has_renewal else dice.choice((0, 500)),
            min_bytes=0 if has_renewal else 1,
            max_bytes=0 if has_renewal else 1 << 20,
            max_records=0 if has_renewal else dice.randint(1, 12),
            batch_size=dice.randint(1, 6),
            is_renew_ack=has_renewal,
            share_acquire_mode=dice.choice((0, 1)),
            topics=[topic],
        )
        response = await self._ask(node, session, fetch_handler.handle, request)
        if response is None:
            return
        for answered in response.responses:
            for one in answered.partitions:
                for range_ in one.acquired_records:
                    self._take(session, one.partition_index, range_)

    def _take(self, session: _Session, index: int, acquired: Any) -> None:
        truth, dice = self._world.truth.partitions[index], self._world.dice
        for offset in range(acquired.first_offset, acquired.last_offset + 1):
            word = self._word() if truth.has_data(offset) else _GAP
            if word is not None:
                is_slow = not self._world.is_calm and dice.random() < 0.1
                due = trio.current_time() + dice.uniform(0, 2 * LOCK_S if is_slow else 1.0)
                session.verdicts[index].append(Verdict(due, offset, word))

    async def _acknowledge(self, node: Node, *, is_last: bool = False) -> None:
        session = self._sessions[node.node_id]
        if not session.epoch:
            return
        topic = share_acknowledge.Topic(topic_id=TOPIC_ID, partitions=[])
        has_renewal = False
        for truth in self._world.truth.partitions:
            words = self._words(session, truth.index)
            has_renewal |= any(word is _RENEW for _, word in words)
            if words:
                batches = _batches(share_acknowledge.AcknowledgementBatch, words)
                topic.partitions.append(
                    share_acknowledge.Partition(
                        partition_index=truth.index, acknowledgement_batches=batches
                    )
                )
        if not topic.partitions and not is_last:
            return
        request = share_acknowledge.Request(
            group_id=GROUP,
            member_id=self.name,
            share_session_epoch=-1 if is_last else session.epoch,
            is_renew_ack=has_renewal,
            topics=[topic],
        )
        await self._ask(node, session, acknowledge_handler.handle, request)

    async def _ask(self, node: Node, session: _Session, handle: Any, request: Any) -> Any:
        response = await self._world.ask(node, handle, session.connection, request, self._serve)
        if response is None:
            self._lose(session)
            return None
        error = ErrorCode(response.error_code)
        if error is ErrorCode.NONE:
            session.epoch = max(0, request.share_session_epoch + 1)
            return response
        self._world.note(f"{self.name} gets {error.name} of {node.node_id}")
        session.epoch = 0
        return None

    # --- at the broker ---------------------------------------------------------------------------

    async def _serve(self, node: Node, handle: Any, context: Any, request: Any) -> Any:
        """Handle a request, and tell the truth what it says and is given."""
        truth, service = self._world.truth, node.service
        said: dict[int, Any] = {}
        for topic in request.topics:
            for one in topic.partitions:
                index, words = one.partition_index, words_of(one)
                if words:
                    running = service.running(index)
                    released = truth.said(self.name, running, words, index)
                    epoch = truth.partitions[index].state_epoch
                    said[index] = (running, words, released, epoch, trio.current_time())
        if request.share_session_epoch <= 0:
            truth.gave_back(self.name, service.all_running())
        response = await handle(node.broker, context, request)
        for topic in response.responses:
            for one in topic.partitions:
                index = one.partition_index
                code = getattr(one, "acknowledge_error_code", one.error_code)
                if index in said and code == ErrorCode.NONE:
                    running, words, released, epoch, arrived = said[index]
                    if epoch == truth.partitions[index].state_epoch:
                        truth.stored(self.name, running, words, index, released, arrived)
                for acquired in getattr(one, "acquired_records", ()):
                    self._delivered(service.running(index), acquired)
        return response

    def _delivered(self, running: Any, acquired: Any) -> None:
        first, last = acquired.first_offset, acquired.last_offset
        where = running.key.partition
        self._world.note(f"{self.name} gets {where}:{first}-{last} ({acquired.delivery_count})")
        self._world.truth.delivered(self.name, running, first, last, acquired.delivery_count)


def _end(connection: ClientConnection) -> None:
    """A broker notices that a connection is gone."""
    sessions = [end.args[0] for end in cast("list[partial[None]]", [*connection.endings.values()])]
    connection.ended()
    require(not any(one.is_open for one in sessions), "sessions end", "one outlives its connection")


def _batches(batch: Any, words: list[tuple[int, AcknowledgeType]]) -> list[Any]:
    """Words in the form of a request: neighbours together, one type for all or one for each."""
    found: list[list[tuple[int, AcknowledgeType]]] = []
    for offset, word in words:
        if found and found[-1][-1][0] == offset - 1:
            found[-1].append((offset, word))
        else:
            found.append([(offset, word)])
    return [
        batch(
            first_offset=some[0][0],
            last_offset=some[-1][0],
            acknowledge_types=[int(word) for _, word in some]
            if len({word for _, word in some}) > 1
            else [int(some[0][1])],
        )
        for some in found
    ]
