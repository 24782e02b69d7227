"""Deleting groups and offsets: DeleteGroups, retention (KIP-211), and deleted topics.

API 42 (DeleteGroups), versions 0 to 2 (KIP-229).
"""

from __future__ import annotations

import logging
from collections.abc import Collection

from minikafka.protocol.errors import ErrorCode
from minikafka.protocol.messages import delete_groups

from .context import ShardContext, Timer, TimerKind
from .effects import Ask
from .group import Group
from .records import CommittedOffset, Entry, OffsetEntry
from .write_errors import write_error

_log = logging.getLogger(__name__)


class Cleanup:
    """Deletes groups and offsets, on request or when they expire."""

    def __init__(self, context: ShardContext) -> None:
        self._context = context

    def handle_delete(self, ask: Ask, request: delete_groups.Request) -> None:
        results: list[delete_groups.DeletableGroupResult] = []
        deleted: list[delete_groups.DeletableGroupResult] = []
        entries: list[Entry] = []
        for group_id in dict.fromkeys(request.groups_names):
            group = self._context.groups.get(group_id)
            error = ErrorCode.GROUP_ID_NOT_FOUND if group is None else group.check_delete()
            result = delete_groups.DeletableGroupResult(group_id=group_id, error_code=error)
            results.append(result)
            if group is not None and error is ErrorCode.NONE:
                deleted.append(result)
                keys = [key for key, _ in self._context.offsets.stored(group_id)]
                entries += [OffsetEntry(key, None) for key in keys]
                entries += group.tombstones()
        response = delete_groups.Response(results=results)
        if not entries:
            self._context.reply(ask.token, response)
            return

        def stored(error: ErrorCode) -> None:
            for result in deleted:
                result.error_code = write_error(error)
            self._context.reply(ask.token, response)

        self._context.append_in_pieces(entries, stored)

    # --- retention -------------------------------------------------------------------------

    def schedule(self) -> None:
        interval_ms = self._context.config.offsets_retention_check_interval_ms
        self._context.start_timer(Timer(TimerKind.RETENTION), interval_ms)

    def on_retention_timer(self) -> None:
        """Expire offsets, and groups that have neither members nor offsets."""
        entries: list[Entry] = []
        for group in self._context.groups.values():
            stored = list(self._context.offsets.stored(group.group_id))
            pending = self._context.pending_offsets
            expired = [
                key
                for key, value in stored
                if key not in pending and self._is_expired(group, key.topic, value)
            ]
            entries += [OffsetEntry(key, None) for key in expired]
            has_offsets = len(expired) < len(stored) or pending.has_group(group.group_id)
            if group.is_unused and not has_offsets:
                entries += group.tombstones()
        if entries:
            _log.info("%d offsets and groups have expired", len(entries))
            self._context.append_in_pieces(entries)
        self.schedule()

    def _is_expired(self, group: Group, topic: str, committed: CommittedOffset) -> bool:
        """Whether the retention time has passed since the offset was last in use."""
        if group.is_subscribed_to(topic):
            return False
        since_ms = group.unused_since_ms(committed)
        if since_ms is None:
            return False
        now_ms = self._context.now.wall_ms
        if committed.expire_timestamp_ms >= 0:
            return now_ms >= committed.expire_timestamp_ms
        return now_ms - since_ms >= self._context.config.offsets_retention_ms

    # --- deleted topics --------------------------------------------------------------------

    def forget_topics(self, topics: Collection[str]) -> None:
        """Delete the offsets that any group has for these topics."""
        entries = [
            OffsetEntry(key, None)
            for group_id in self._context.offsets.groups()
            for key, _ in self._context.offsets.stored(group_id)
            if key.topic in topics
        ]
        if entries:
            self._context.append_in_pieces(entries)
