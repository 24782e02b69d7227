"""Runs the group member machine on trio."""

from __future__ import annotations

import logging
import math
from collections import deque
from collections.abc import Callable, Sequence
from typing import Final

import trio

from minikafka_client.core import membership as machine
from minikafka_client.core.wire import Answer
from minikafka_client.errors import ConnectionLostError, KafkaError
from minikafka_client.log_events import LogEvent
from minikafka_client.plans.coordinators import find_coordinators
from minikafka_client.trio_api.background import Background
from minikafka_client.trio_api.metadata_keeper import MetadataKeeper
from minikafka_client.trio_api.network import Network
from minikafka_client.types import TopicPartition

logger = logging.getLogger(__name__)

GROUP_LANE: Final = "group"
_SHOWN_MAX: Final = 20


class GroupLoop:
    """The group member's shell.

    ``has_progressed`` returns whether the application has taken a record since the last call, or
    waits for one. ``on_action`` is called when there is an action or an error for the application.

    Attributes:
        actions: what the application must do, in order: `Revoke` and `Assign`.
        error: why the member cannot continue.
    """

    def __init__(
        self,
        member: machine.Member,
        group_id: str,
        network: Network,
        keeper: MetadataKeeper,
        background: Background,
        *,
        has_progressed: Callable[[], bool],
        on_action: Callable[[], None],
    ) -> None:
        self.member = member
        self.actions: deque[machine.Revoke | machine.Assign] = deque()
        self.error: KafkaError | None = None
        self._group_id = group_id
        self._network = network
        self._keeper = keeper
        self._background = background
        self._has_progressed = has_progressed
        self._on_action = on_action
        self._events: deque[machine.Event] = deque()
        self._is_busy = False
        self._timer = trio.CancelScope()
        self._has_answer = trio.Event()

    async def next_answer(self) -> None:
        """Wait until the coordinator has answered the member (or could not)."""
        await self._has_answer.wait()

    def feed(self, event: machine.Event) -> None:
        self._events.append(event)
        if self._is_busy:
            return
        while self._events:
            now = trio.current_time()
            self.run_effects(self.member.handle(self._events.popleft(), now))
        self._timer.deadline = self.member.deadline() or math.inf

    def log(self, event: LogEvent, partitions: Sequence[TopicPartition]) -> None:
        shown = ", ".join(f"{topic}-{index}" for topic, index in partitions[:_SHOWN_MAX])
        logger.log(
            logging.WARNING if event is LogEvent.PARTITIONS_LOST else logging.INFO,
            "group %r: %s: %d %s%s",
            self._group_id,
            event.value.replace("_", " "),
            len(partitions),
            shown,
            " ..." if len(partitions) > _SHOWN_MAX else "",
            extra=event.about(group_id=self._group_id, partitions=list(partitions)),
        )

    def _log_joined(self) -> None:
        member = self.member
        logger.info(
            "joined group %r as %s in generation %d: %d partitions",
            self._group_id,
            member.member_id,
            member.generation_id,
            len(member.owned),
            extra=LogEvent.GROUP_JOINED.about(
                group_id=self._group_id,
                member_id=member.member_id,
                generation_id=member.generation_id,
                partition_count=len(member.owned),
            ),
        )

    async def leave(self, reason: str) -> None:
        self.actions.clear()
        self.feed(machine.Left(reason))
        node = self.member.coordinator
        connection = None if node is None else self._network.connected(node, GROUP_LANE)
        if connection is not None:
            await connection.settled()

    async def run(self) -> None:
        while True:
            self._timer = trio.CancelScope(deadline=self.member.deadline() or math.inf)
            with self._timer:
                await trio.sleep_forever()
            if self._has_progressed():
                self.feed(machine.Polled())
            else:
                self.run_effects(self.member.expire(trio.current_time()))

    def run_effects(self, effects: list[machine.Effect]) -> None:
        self._is_busy = True
        for effect in effects:
            match effect:
                case machine.Send():
                    self._send(effect)
                case machine.FindCoordinator():
                    self._background.start_soon(self._find_coordinator)
                case machine.RefreshMetadata(topics, topic_ids):
                    self._keeper.want(topics, topic_ids)
                case machine.Revoke() | machine.Assign():
                    if isinstance(effect, machine.Assign):
                        self._log_joined()
                    self.actions.append(effect)
                    self._on_action()
                case machine.Fail(error):
                    logger.error(
                        "the consumer cannot be in group %r: %s",
                        self._group_id,
                        error,
                        extra=LogEvent.GROUP_FAILED.about(
                            group_id=self._group_id, error=str(error)
                        ),
                    )
                    self.error = error
                    self._on_action()
        self._is_busy = False
        if self._events:
            self.feed(self._events.popleft())

    def _send(self, effect: machine.Send) -> None:
        token = effect.token

        def on_answer(answer: Answer) -> None:
            self.feed(machine.Answered(token, answer))
            has_answer, self._has_answer = self._has_answer, trio.Event()
            has_answer.set()

        connection = self._network.connected(effect.node, GROUP_LANE)
        try:
            if connection is None:
                raise ConnectionLostError(f"the connection to broker {effect.node} is closed")
            version = connection.version_for(effect.request, effect.version_min)
            connection.submit(effect.request, version, on_answer, timeout_ms=effect.timeout_ms)
        except KafkaError as error:
            self.feed(machine.Answered(token, error))

    async def _find_coordinator(self) -> None:
        group_id = self._group_id
        try:
            found = await self._network.run_plan(
                lambda cluster: find_coordinators(cluster, [group_id])
            )
            node = found[group_id]
            if isinstance(node, KafkaError):
                raise node
            await self._network.connect(node, GROUP_LANE)
        except KafkaError as error:
            logger.warning(
                "cannot reach the coordinator of group %r: %s",
                group_id,
                error,
                extra=LogEvent.COORDINATOR_FAILED.about(group_id=group_id, error=str(error)),
            )
            self.feed(machine.CoordinatorFailed(error))
        else:
            logger.info(
                "the coordinator of group %r is broker %d",
                group_id,
                node,
                extra=LogEvent.COORDINATOR_FOUND.about(group_id=group_id, node_id=node),
            )
            self.feed(machine.CoordinatorFound(node))
