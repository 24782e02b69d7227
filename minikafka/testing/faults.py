"""Faults on purpose, the record of requests, and time, for one broker or for all of a cluster.

Faults count and act in the process of a broker, not between it and the test: nothing is a matter of
luck or of timing.
"""

from __future__ import annotations

import time
from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final, Literal, Protocol

from .blocks import Block
from .channel import CommandError

STEP_SECONDS = 0.1
"""Of a cluster's clocks: well below the time in which nodes have to hear from each other."""

OWNER_SECONDS_MAX: Final = 60.0
"""How long to look for the node that coordinates something. Most of the time it is known."""
_ASK_AGAIN_S: Final = 0.02


class Caller(Protocol):
    """Has a broker do something: a channel to its process, or the broker itself."""

    def call(self, command: str, **arguments: Any) -> Any:
        """Returns when it is done.

        Raises:
            CommandError: the broker refused.
        """
        ...


@dataclass(frozen=True, slots=True)
class Request:
    """A request that a broker has received.

    Attributes:
        node: the id of the broker.
        api: Kafka's name, e.g. ``Produce``.
        version: of the API.
        client_id: as the client calls itself.
        topics: the topics in it, at most 1,000; of a fetch session, all of the session's.
        group: the group in it.
        transactional_id: in it.
        at_ms: when it arrived, milliseconds since 1970 by the broker's clock.
    """

    node: int
    api: str
    version: int
    client_id: str | None
    topics: tuple[str, ...]
    group: str | None
    transactional_id: str | None
    at_ms: int


class Injection:
    """A fault that was injected; `Faults.inject` makes it."""

    def __init__(self, numbers: Mapping[Caller, int]) -> None:
        self._numbers = numbers

    @property
    def hits(self) -> int:
        """How many requests it has happened to."""
        return sum(channel.call("hits", number=one) for channel, one in self._numbers.items())

    def remove(self) -> int:
        """Let no more requests suffer it.

        Returns:
            How many requests it has happened to.
        """
        calls = self._numbers.items()
        return sum(channel.call("remove_fault", number=one) for channel, one in calls)


class Clock:
    """The clocks of the brokers, which run as the machine's do and can be moved on."""

    def __init__(self, controlled: Controlled) -> None:
        self._controlled = controlled

    def advance(self, seconds: float) -> None:
        """Let time pass: what is due by then happens before this returns, in its order.

        Sessions of members and transactions expire, retention deletes, delayed answers are sent.
        Clients have their own clocks, and do not notice. A node that starts later has the moved
        time as well.

        With one broker the time does not matter; with several it takes a second for some five
        minutes, because the nodes have to stay in step.

        Raises:
            CommandError: a broker does not run, or ``seconds`` is negative.
        """
        self._controlled.advance_clocks(seconds)


class Faults(ABC):
    """What a test does to a broker, or to all of a cluster, that takes no time."""

    @property
    @abstractmethod
    def bootstrap(self) -> str:
        """``HOST:PORT``, or several with commas, for clients."""

    @abstractmethod
    def channels(self) -> Mapping[int, Caller]:
        """How to reach the brokers that run, by node id."""

    def _tell_all(self, command: str, **arguments: Any) -> dict[int, Any]:
        return {
            node: channel.call(command, **arguments) for node, channel in self.channels().items()
        }

    # --- faults --------------------------------------------------------------------------------

    def inject(
        self,
        api: str,
        error: str | None = None,
        *,
        delay_s: float = 0.0,
        disconnect: Literal["before", "after"] | None = None,
        drop: bool = False,
        repeat: bool = False,
        times: int | None = 1,
        client_id: str | None = None,
        topic: str | None = None,
        group: str | None = None,
    ) -> Injection:
        """Have the next requests of an API fail.

        Of several faults that fit a request, the one that was injected first happens to it. A fault
        stays in a process: a broker that was restarted has none. In a cluster each node counts for
        itself.

        Args:
            api: Kafka's name, e.g. ``Produce``, ``Fetch``, ``OffsetCommit``.
            error: Kafka's name, e.g. ``NOT_LEADER_OR_FOLLOWER``; everything in the request is
                answered with it and nothing takes effect. Stands for what the error says; a broker
                answers so during elections, while it loads, or when a disk fails.
            delay_s: serve it this much later (alone, or before the rest). Stands for a busy broker
                or a slow network.
            disconnect: ``"before"`` ends the connection and nothing takes effect: the request was
                lost. ``"after"`` lets it take effect, then ends the connection: the answer was
                lost, and the client cannot know.
            drop: never answer, with no effect, while the connection stays: a broker that hangs.
            repeat: let it take effect twice, and answer the second time: a request that something
                on the way has sent again.
            times: how many requests; None for all from now on.
            client_id: only requests of clients that call themselves so.
            topic: only requests that name this topic.
            group: only requests of this group.

        Raises:
            CommandError: there is no such API or error.
            ValueError: nothing would happen, or ``disconnect`` is neither word.
        """
        if disconnect not in {None, "before", "after"}:
            raise ValueError(f"disconnect={disconnect!r}: it is 'before', 'after' or None")
        if not (error or delay_s or disconnect or drop or repeat):
            raise ValueError(
                f"inject({api!r}) does nothing; give an error, delay_s, disconnect, drop or repeat"
            )
        parts = {"error": error, "delay_s": delay_s, "disconnect": disconnect, "drop": drop}
        parts |= {"repeat": repeat, "times": times}
        parts |= {"client_id": client_id, "topic": topic, "group": group}
        channels = self.channels().values()
        return Injection({one: one.call("inject", api=api, **parts) for one in channels})

    def limit_versions(self, api: str, last: int, *, first: int = 0) -> None:
        """Be an older Kafka: serve, and announce, only some versions of an API.

        Clients ask for the versions when they connect. A request of another one ends the
        connection, as in Kafka. `clear_faults` takes it back.

        Args:
            api: Kafka's name.
            last: the highest version; -1 for none at all, as before the API existed.
            first: the lowest version.
        """
        self._tell_all("limit_versions", api=api, first=first, last=last)

    def disk_full(self) -> None:
        """Let no more records be written: the disk of the partitions is full (ENOSPC).

        Appends fail, and the partitions that wanted them go offline: producers get
        KAFKA_STORAGE_ERROR, and in a cluster other replicas take over. What is stored can still be
        read from partitions that nobody has written to. The metadata log counts as being on another
        disk. `disk_has_room` ends it, and so does a restart.
        """
        self._tell_all("fill_disk")

    def clear_faults(self) -> None:
        """Forget all injected errors, delays and so on, and all limits of versions."""
        self._tell_all("clear_faults")

    # --- requests ------------------------------------------------------------------------------

    @property
    def requests(self) -> list[Request]:
        """What clients have asked for, oldest first: the last 100,000 of each broker."""
        found = [
            Request(node, api, version, client_id, tuple(topics), group, transactional_id, at_ms)
            for node, answer in self._tell_all("requests").items()
            for api, version, client_id, topics, group, transactional_id, at_ms in answer
        ]
        return sorted(found, key=lambda one: one.at_ms)

    def forget_requests(self) -> None:
        """Begin the record of requests again."""
        self._tell_all("forget_requests")

    # --- coordinators --------------------------------------------------------------------------

    def expire_member(self, group: str, member: str) -> None:
        """End the session of a group's member now.

        Stands for a member that was silent for its session timeout: its process hangs, or the
        network lost it. The others rebalance; the member learns it from its next heartbeat
        (UNKNOWN_MEMBER_ID) and joins again, unless it is really dead.

        Args:
            group: its group.
            member: its member id, its ``group.instance.id``, or its client id; all members that
                are called so.

        Raises:
            CommandError: there is no such member.
        """
        self._tell_owner("expire_member", group=group, member=member)

    def force_rebalance(self, group: str) -> None:
        """Have all members of a group join again, as when a member joins or changes what it reads.

        Members learn it from their next heartbeat. `requests` shows when they have joined.

        Raises:
            CommandError: the group has no members.
        """
        self._tell_owner("force_rebalance", group=group)

    def expire_transaction(self, transactional_id: str) -> None:
        """Time out the open transaction of a producer now.

        Stands for a producer that took longer than its ``transaction.timeout.ms``: the coordinator
        aborts the transaction and the producer's next request of it fails.

        Raises:
            CommandError: no transaction is open. The first record opens it, not
                ``begin_transaction``, which only the client knows of.
        """
        self._tell_owner("expire_transaction", transactional_id=transactional_id)

    def _tell_owner(self, command: str, **arguments: Any) -> None:
        """Have the node do something that is responsible; wait while nobody is.

        Raises:
            CommandError: it refused, or nobody is responsible for a minute.
        """
        deadline = time.monotonic() + OWNER_SECONDS_MAX
        while not any(one.call(command, **arguments) for one in self.channels().values()):
            if time.monotonic() > deadline:
                what = ", ".join(f"{name}={value!r}" for name, value in arguments.items())
                raise CommandError(f"{command}: no node coordinates {what}")
            time.sleep(_ASK_AGAIN_S)


class Controlled(Faults, Block):
    """A broker or a cluster that does what a test wants.

    Attributes:
        clock: moves the time of its brokers.
    """

    def __init__(self) -> None:
        self.clock = Clock(self)

    @abstractmethod
    def advance_clocks(self, seconds: float) -> None:
        """See `Clock.advance`."""

    # --- the state -----------------------------------------------------------------------------

    def disk_has_room(self) -> None:
        """Let the disk have room again, and bring back the partitions that had failed."""
        self._tell_all("empty_disk")

    def clean_logs(self) -> None:
        """Apply retention and compact now, instead of every few minutes."""
        self._tell_all("clean_logs")

    @abstractmethod
    def reset(self) -> None:
        """Delete all topics, groups, transactions, faults and recorded requests.

        Much faster than another broker. Topics get new ids, and producers new ones, so that clients
        of an earlier test cannot reach those of the next by mistake.
        """

    @abstractmethod
    def restore(self) -> None:
        """Undo what a test did: faults, requests, pauses, cuts and kills. Data and time stay."""
