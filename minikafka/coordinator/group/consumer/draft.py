"""A decision about a consumer group in the making.

The records are applied to a copy of the group one by one, by the code that applies them when they
are in the log; so each step of a decision sees what the steps before it decided, and nothing has
happened if the records cannot be written.
"""

from __future__ import annotations

import hashlib
import struct
from collections.abc import Mapping

from ..records import Entry
from ..topics import Topic, Topics
from .assignors import Assignor, MemberSpec
from .consumer_group import ConsumerGroup
from .member import (
    ConsumerMember,
    Subscription,
    current_value,
    subscription_value,
)
from .partitions import Partitions
from .records import (
    CurrentEntry,
    GroupEpochEntry,
    GroupValue,
    MemberEntry,
    RegexEntry,
    RegexValue,
    TargetEntry,
    TargetEpochEntry,
    TargetMemberValue,
    TargetValue,
    to_structs,
)


class Draft:
    """What the group will be, and the records that make it so.

    Attributes:
        group: the group with the changes so far.
        entries: the records so far.
    """

    def __init__(self, group: ConsumerGroup) -> None:
        self.group = group
        self.entries: list[Entry] = []
        self._is_copy = False

    def add(self, entry: Entry) -> None:
        if not self._is_copy:
            self.group = self.group.copy()
            self._is_copy = True
        self.entries.append(entry)
        self.group.apply(entry)

    # --- members ---------------------------------------------------------------------------

    def subscribe(self, member_id: str, subscription: Subscription) -> bool:
        """Store a member's subscription; whether the assignment depends on what changed."""
        before = self.group.members.get(member_id)
        if before is not None and before.subscription == subscription:
            return False
        value = subscription_value(subscription)
        self.add(MemberEntry(self.group.group_id, member_id, value))
        if before is None:
            return True
        old = before.subscription
        if old.regex is not None and old.regex != subscription.regex:
            self._forget_regex(old.regex)
        return (old.topics, old.regex, old.assignor) != (
            subscription.topics,
            subscription.regex,
            subscription.assignor,
        )

    def put(self, member: ConsumerMember) -> None:
        """Store what a member has now, if that changed."""
        if self.group.members[member.member_id] != member:
            value = current_value(member)
            self.add(CurrentEntry(self.group.group_id, member.member_id, value))

    def remove(self, member_id: str) -> None:
        group_id, member = self.group.group_id, self.group.members[member_id]
        self.add(CurrentEntry(group_id, member_id, None))
        if member_id in self.group.targets:
            self.add(TargetEntry(group_id, member_id, None))
        self.add(MemberEntry(group_id, member_id, None))
        if member.subscription.regex is not None:
            self._forget_regex(member.subscription.regex)

    def replace(self, old: ConsumerMember, new_id: str) -> None:
        """A static member is back under another id: it keeps what it had."""
        group_id, target = self.group.group_id, self.group.target(old.member_id)
        self.remove(old.member_id)
        self.subscribe(new_id, old.subscription)
        value = TargetMemberValue(topic_partitions=to_structs(target))
        self.add(TargetEntry(group_id, new_id, value))
        back = ConsumerMember(new_id, old.subscription, 0, 0, old.state, old.assigned, old.revoking)
        self.add(CurrentEntry(group_id, new_id, current_value(back)))

    # --- topics ----------------------------------------------------------------------------

    def resolve(self, regex: str, topics: frozenset[str], now_ms: int) -> bool:
        """Store the topics of a regular expression; whether they are others than before."""
        before = self.group.regexes.get(regex)
        if before is not None and before.topics == topics:
            return False
        value = RegexValue(topics=sorted(topics), version=0, timestamp_ms=now_ms)
        self.add(RegexEntry(self.group.group_id, regex, value))
        return before is not None or bool(topics)

    def _forget_regex(self, regex: str) -> None:
        if regex in self.group.regexes and not self.group.uses_regex(regex):
            self.add(RegexEntry(self.group.group_id, regex, None))

    # --- epochs ----------------------------------------------------------------------------

    def raise_epoch(self, topics: Topics, *, is_changed: bool) -> None:
        """Raise the group epoch if something changed, or the subscribed topics did."""
        metadata_hash = hash_of_topics(self.group.subscribed_topics, topics)
        if is_changed or metadata_hash != self.group.metadata_hash:
            value = GroupValue(epoch=self.group.epoch + 1, metadata_hash=metadata_hash)
            self.add(GroupEpochEntry(self.group.group_id, value))

    def assign(self, assignor: Assignor, topics: Topics) -> None:
        """Bring the target assignment to the group epoch."""
        group = self.group
        if group.assignment_epoch >= group.epoch:
            return
        found: dict[str, Topic] = {}
        for name in group.subscribed_topics:
            topic = topics.by_name(name)
            if topic is not None:
                found[name] = topic
        specs: dict[str, MemberSpec] = {}
        for member_id, member in group.members.items():
            subscription = member.subscription
            read = group.topics_of(subscription)
            specs[member_id] = MemberSpec(
                subscription.instance_id,
                subscription.rack_id,
                frozenset(found[name].topic_id for name in read if name in found),
                group.target(member_id),
            )
        read_ids = frozenset[bytes]().union(*(spec.topics for spec in specs.values()))
        counts = {
            topic.topic_id: topic.partition_count
            for topic in found.values()
            if topic.topic_id in read_ids
        }
        self._set_targets(assignor.assign(specs, counts) if specs else {})
        value = TargetValue(assignment_epoch=group.epoch)
        self.add(TargetEpochEntry(group.group_id, value))

    def _set_targets(self, targets: Mapping[str, Partitions]) -> None:
        """Store what differs from the targets before."""
        group_id = self.group.group_id
        before = dict(self.group.targets)
        for member_id, target in targets.items():
            if member_id not in before or before[member_id] != target:
                value = TargetMemberValue(topic_partitions=to_structs(target))
                self.add(TargetEntry(group_id, member_id, value))
        for member_id in before:
            if member_id not in targets:
                self.add(TargetEntry(group_id, member_id, None))


def hash_of_topics(names: frozenset[str], topics: Topics) -> int:
    """A number that changes when one of the topics appears, goes, or gets more partitions."""
    digest = hashlib.blake2b(digest_size=8)
    for name in sorted(names):
        topic = topics.by_name(name)
        if topic is not None:
            digest.update(topic.topic_id + struct.pack(">i", topic.partition_count))
    return int.from_bytes(digest.digest(), "big", signed=True)
