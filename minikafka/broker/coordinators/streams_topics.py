"""Creates the internal topics of streams groups: repartition topics and changelogs (KIP-1071)."""

from __future__ import annotations

import logging
from collections.abc import Sequence

import trio

from ...coordinator.group import CreateInternalTopics, NewTopic
from ...protocol.errors import ErrorCode
from ...protocol.messages import create_topics as create_topics_api
from ..control.forwarder import Forwarder
from ..control.topic_creation import create_topics
from ..quorum.change_error import ChangeError

logger = logging.getLogger(__name__)

_WAIT_SECONDS = 3.0
"""How long a heartbeat waits for topics; clients are more patient."""
_ERRORS_SHOWN_MAX = 5


class _Creation:
    def __init__(self) -> None:
        self.is_over = trio.Event()
        self.errors: list[str] = []


class StreamsTopics:
    """One creation for each group at a time; what fails is tried again with the next heartbeat."""

    def __init__(self, forwarder: Forwarder) -> None:
        self._forwarder = forwarder
        self._creations: dict[str, _Creation] = {}
        self._refused: dict[str, str] = {}

    def refuse(self, effect: CreateInternalTopics, names: Sequence[str]) -> None:
        """Create nothing, because the client that asks may not create some of the topics."""
        shown = ", ".join(names[:_ERRORS_SHOWN_MAX])
        self._refused[effect.group_id] = f"Unauthorized to CREATE on topics {shown}."

    def begin(self, effect: CreateInternalTopics, nursery: trio.Nursery) -> None:
        if effect.group_id not in self._creations:
            creation = self._creations[effect.group_id] = _Creation()
            nursery.start_soon(self._create, effect, creation)

    async def _create(self, effect: CreateInternalTopics, creation: _Creation) -> None:
        try:
            wanted = [_creatable(topic) for topic in effect.topics]
            response = await create_topics(self._forwarder, wanted)
            creation.errors = [
                f"{one.name}: {one.error_message or ErrorCode(one.error_code).name}"
                for one in response.topics
                if one.error_code not in (ErrorCode.NONE, ErrorCode.TOPIC_ALREADY_EXISTS)
            ]
        except ChangeError as error:
            creation.errors = [str(error)]
        finally:
            if creation.errors:
                shown = "; ".join(creation.errors[:_ERRORS_SHOWN_MAX])
                logger.warning(
                    "cannot create internal topics of streams group %s: %s", effect.group_id, shown
                )
            creation.is_over.set()
            del self._creations[effect.group_id]

    async def wait(self, group_id: str) -> str | None:
        """Wait some time for topics that are being created.

        Returns:
            None if none are; else what is wrong, or nothing if they exist now.
        """
        refused = self._refused.pop(group_id, None)
        if refused is not None:
            return refused
        creation = self._creations.get(group_id)
        if creation is None:
            return None
        with trio.move_on_after(_WAIT_SECONDS) as scope:
            await creation.is_over.wait()
        if scope.cancelled_caught:
            return "they are still being created"
        return "; ".join(creation.errors[:_ERRORS_SHOWN_MAX])


def _creatable(topic: NewTopic) -> create_topics_api.CreatableTopic:
    return create_topics_api.CreatableTopic(
        name=topic.name,
        num_partitions=topic.partitions,
        replication_factor=topic.replication_factor or -1,
        assignments=[],
        configs=[
            create_topics_api.CreatableTopicConfig(name=name, value=value)
            for name, value in topic.configs
        ],
    )
