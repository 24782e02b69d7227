"""Share sessions: what each member of a share group fetches from this broker (KIP-932).

A member opens a session with epoch 0 and closes it with -1; each request in between has the next
number and names only the partitions that were added or removed. Unlike a fetch session
(`minikafka.broker.replicas.fetch_sessions`) it is not optional: its end releases what the member
has acquired. There is one for each member, so it has no id of its own.

A session also ends with the connection on which it was opened, as in Kafka. Where a connection that
is gone goes unnoticed, its session ends when its place is needed; the locks of its records have run
out by then.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, NamedTuple

from ...protocol.errors import ErrorCode

INITIAL_EPOCH: Final = 0
FINAL_EPOCH: Final = -1
EVICTION_AGE_SECONDS: Final = 120.0
PARTITIONS_PER_SESSION_MAX: Final = 10_000

TopicPartition = tuple[bytes, int]
"""Topic id and index."""


class ShareSessionError(Exception):
    """The request does not fit the session of its member."""

    def __init__(self, error_code: ErrorCode, message: str) -> None:
        super().__init__(message)
        self.error_code = error_code


class SessionKey(NamedTuple):
    group_id: str
    member_id: str


class ShareSession:
    """One member's session.

    Attributes:
        epoch: what the next request must carry.
        partitions: what it fetches, in the order in which it is served next.
        is_open: it has not ended; a fetch that still waits when it does gets nothing.
    """

    __slots__ = ("epoch", "is_open", "key", "last_used", "partitions")

    def __init__(self, key: SessionKey, now: float) -> None:
        self.key = key
        self.epoch = 1
        self.is_open = True
        self.last_used = now
        self.partitions: dict[TopicPartition, None] = {}

    def move_to_end(self, partition: TopicPartition) -> None:
        """Serve the others first next time."""
        if partition in self.partitions:
            del self.partitions[partition]
            self.partitions[partition] = None


class ShareSessions:
    """All share sessions of a broker.

    Args:
        sessions_max: setting ``group.share.max.share.sessions``.
    """

    def __init__(self, sessions_max: int) -> None:
        self._sessions_max = sessions_max
        self._sessions: dict[SessionKey, ShareSession] = {}
        self._ending: dict[ShareSession, None] = {}

    def __len__(self) -> int:
        return len(self._sessions)

    def has_group(self, group_id: str) -> bool:
        """Whether a member of this group has a session here, or has records of an earlier one."""
        return any(key.group_id == group_id for key in self._sessions) or any(
            session.key.group_id == group_id for session in self._ending
        )

    def open(self, key: SessionKey, now: float) -> tuple[ShareSession, ShareSession | None]:
        """A new session for a member; also the one that ended for it, which has to be `released`.

        Raises:
            ShareSessionError: SHARE_SESSION_LIMIT_REACHED.
        """
        ended = self._end(key)
        if len(self._sessions) >= self._sessions_max:
            ended = self._evict(now)
        session = self._sessions[key] = ShareSession(key, now)
        return session, ended

    def _evict(self, now: float) -> ShareSession:
        oldest = min(self._sessions.values(), key=lambda one: one.last_used)
        if now - oldest.last_used < EVICTION_AGE_SECONDS:
            raise ShareSessionError(
                ErrorCode.SHARE_SESSION_LIMIT_REACHED,
                f"{len(self._sessions)} members of share groups fetch from this broker; "
                f"group.share.max.share.sessions allows {self._sessions_max}",
            )
        del self._sessions[oldest.key]
        self._ended(oldest)
        return oldest

    def _end(self, key: SessionKey) -> ShareSession | None:
        session = self._sessions.pop(key, None)
        if session is not None:
            self._ended(session)
        return session

    def _ended(self, session: ShareSession) -> None:
        session.is_open = False
        self._ending[session] = None

    def released(self, session: ShareSession) -> None:
        """What a member had is about to be released: nothing is left of its session."""
        self._ending.pop(session, None)

    def lost(self, session: ShareSession) -> bool:
        """End a session whose connection has ended; False if it had ended before."""
        return session.is_open and self._end(session.key) is session

    def use(self, key: SessionKey, epoch: int, now: float) -> ShareSession:
        """The session of a member, for the request with this epoch.

        Raises:
            ShareSessionError: SHARE_SESSION_NOT_FOUND, INVALID_SHARE_SESSION_EPOCH.
        """
        session = self._sessions.get(key)
        if session is None:
            raise ShareSessionError(
                ErrorCode.SHARE_SESSION_NOT_FOUND,
                f"member {key.member_id} of group {key.group_id} has no share session here",
            )
        if epoch != session.epoch:
            raise ShareSessionError(
                ErrorCode.INVALID_SHARE_SESSION_EPOCH,
                f"the share session of member {key.member_id} is at epoch {session.epoch}, "
                f"not {epoch}",
            )
        session.epoch = 1 if epoch >= 2**31 - 1 else epoch + 1
        session.last_used = now
        return session

    @staticmethod
    def add(session: ShareSession, partitions: Sequence[TopicPartition]) -> None:
        """Let a session fetch more partitions.

        Raises:
            ShareSessionError: INVALID_REQUEST, it has too many.
        """
        session.partitions.update(dict.fromkeys(partitions))
        if len(session.partitions) > PARTITIONS_PER_SESSION_MAX:
            for one in partitions:
                del session.partitions[one]
            raise ShareSessionError(
                ErrorCode.INVALID_REQUEST,
                f"a share session has at most {PARTITIONS_PER_SESSION_MAX} partitions",
            )

    def close(self, key: SessionKey) -> ShareSession:
        """End the session of a member; it has to be `released`.

        Raises:
            ShareSessionError: SHARE_SESSION_NOT_FOUND.
        """
        session = self._end(key)
        if session is None:
            raise ShareSessionError(
                ErrorCode.SHARE_SESSION_NOT_FOUND,
                f"member {key.member_id} of group {key.group_id} has no share session here",
            )
        return session
