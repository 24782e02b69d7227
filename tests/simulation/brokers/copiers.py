"""Transactional clients of both generations: they copy, crash, come back, and go on as zombies.

A copier reads its partition of the input, writes each record into some partition of the output, and
commits how far it has read, all in one transaction. It also looks at the output inside its
transactions, as the history checker wants it.
"""

from __future__ import annotations

import trio

from minikafka.protocol.errors import ErrorCode
from minikafka.protocol.messages import offset_fetch
from minikafka.testing.history.operations import Poll, Send
from minikafka.testing.history.recording import Recorded, Recorder
from minikafka.testing.simulation.network import HOST, Network, Note
from tests.simulation.brokers.clients import PARTITIONS, TOPIC, NoAnswerError
from tests.simulation.brokers.committed_reading import OUTPUT
from tests.simulation.brokers.transactional import (
    GROUP,
    AbortError,
    FencedError,
    TransactionalClient,
)

_COMMITS = 0.85
_PEEKS = 0.2
_RECORDS_MAX = 6


class Copier(TransactionalClient):
    """One process with a transactional id.

    Attributes:
        partition: of the input.
        is_alive: it has not ended.
        position: what it reads next; all before is committed.
        committed: how many transactions it has committed.
        aborted: how many it has aborted.
    """

    def __init__(
        self,
        partition: int,
        number: int,
        version: int,
        seed: int,
        network: Network,
        note: Note,
        nodes: int,
        nursery: trio.Nursery,
        recorder: Recorder,
    ) -> None:
        host, name = f"copier{partition}.{number}", f"copy{partition}"
        super().__init__(host, name, version, seed, network, note, nodes, nursery)
        self.partition = partition
        self.is_alive = True
        self.position = -1
        self.committed = self.aborted = 0
        self._recorder = recorder
        self._scope = trio.CancelScope()
        self._peeked = dict.fromkeys(range(PARTITIONS), 0)
        self._attempts = 0

    def die(self) -> None:
        """The process ends; what it sent is still on its way."""
        self.is_alive = False
        self._scope.cancel()

    async def run(self) -> None:
        """Copy until `is_done`, or until another process has the transactional id."""
        HOST.set(self.host)
        with self._scope:
            try:
                await self.begin(goes_on=False)
                self.position = await self._committed_offset()
                while not self.is_done:
                    await self._copy()
            except FencedError as error:
                self.note(f"{self.host} ends: {error}")
        self.is_alive = False
        self.drop_all()

    async def _committed_offset(self) -> int:
        topic = offset_fetch.RequestTopic(name=TOPIC, partition_indexes=[self.partition])
        request = offset_fetch.Request(group_id=GROUP, topics=[topic], require_stable=True)

        def code_of(answer: offset_fetch.Response) -> int:
            return answer.error_code or answer.topics[0].partitions[0].error_code

        code, answer = await self.insist(
            "group", self.find_group, request, 7, offset_fetch.Response, code_of
        )
        if code is not ErrorCode.NONE or answer is None:
            raise FencedError(f"no committed offset: {code.name}")
        return max(0, answer.topics[0].partitions[0].committed_offset)

    async def _copy(self) -> None:
        """Copy some records in one transaction."""
        found = await self._input()
        if not found:
            return
        recorded = self._recorder.begin(self.host)
        may_be_committed = False
        try:
            try:
                await self._fill(recorded, found)
            except AbortError as error:
                self.note(f"{self.host} {self.producer_id}/{self.epoch} gives up: {error}")
                await self._abort(raises_epoch=True)
                return
            if self.dice.random() >= _COMMITS:
                await self._abort(raises_epoch=self.version < 2 and self.has_doubts)
                return
            may_be_committed = True
            may_be_committed = await self._commit(recorded, found[-1][0] + 1)
        finally:
            if not may_be_committed:
                recorded.fail()

    async def _input(self) -> list[tuple[int, bytes]]:
        try:
            node_id = await self.leader(self.partition)
            code, found, _ = await self.read(node_id, TOPIC, self.partition, self.position)
        except NoAnswerError:
            code, found = ErrorCode.REQUEST_TIMED_OUT, []
        if not found or code is not ErrorCode.NONE:
            await self.back_off()
        return found[: self.dice.randint(1, _RECORDS_MAX)]

    async def _fill(self, recorded: Recorded, found: list[tuple[int, bytes]]) -> None:
        added: set[int] = set()
        self._attempts += 1
        for offset, _ in found:
            partition = self.dice.randrange(PARTITIONS)
            if self.dice.random() < _PEEKS:
                await self._peek(recorded)
            if self.version < 2 and partition not in added:
                await self.add(partition)
                added.add(partition)
            value = f"{self.partition}/{offset}/{self.host}-{self._attempts}".encode()
            recorded.actions.append(Send((OUTPUT, partition), value))
            place = len(recorded.actions) - 1
            at = await self.produce(partition, value)
            recorded.actions[place] = Send((OUTPUT, partition), value, at)
        await self.send_offsets(self.partition, found[-1][0] + 1)

    async def _peek(self, recorded: Recorded) -> None:
        """Read something of the output inside the transaction."""
        partition = self.dice.randrange(PARTITIONS)
        try:
            node_id = await self.leader(partition, OUTPUT)
            _, found, self._peeked[partition] = await self.read(
                node_id, OUTPUT, partition, self._peeked[partition]
            )
        except NoAnswerError:
            return
        if found:
            recorded.actions.append(Poll({(OUTPUT, partition): found}))

    async def _abort(self, *, raises_epoch: bool) -> None:
        """Abort; raise the epoch where something may still be on its way."""
        code = await self.end(commits=False)
        # INVALID_TXN_STATE: nothing had begun.
        if code not in (ErrorCode.NONE, ErrorCode.INVALID_TXN_STATE):
            raise FencedError(f"cannot abort: {code.name if code is not None else 'no answer'}")
        self.aborted += 1
        if raises_epoch:
            await self.begin(goes_on=True)

    async def _commit(self, recorded: Recorded, position: int) -> bool:
        """Commit; whether that may have happened.

        Raises:
            FencedError: it has been replaced, or the outcome is unknown.
        """
        code = await self.end(commits=True)
        if code is ErrorCode.NONE:
            recorded.ok()
            self.committed += 1
            self.position = position
        if code in (ErrorCode.NONE, ErrorCode.TRANSACTION_ABORTABLE):
            if code is ErrorCode.TRANSACTION_ABORTABLE or (self.version < 2 and self.has_doubts):
                # It took too long; or something of this epoch may still be on its way.
                await self.begin(goes_on=True)
            return code is ErrorCode.NONE
        if code not in (None, ErrorCode.REQUEST_TIMED_OUT):
            recorded.fail()
        raise FencedError(f"cannot commit: {code.name if code is not None else 'no answer'}")
