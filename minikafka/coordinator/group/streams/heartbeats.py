"""StreamsGroupHeartbeat: joining, staying in, and leaving a streams group.

API 88 (StreamsGroupHeartbeat), versions 0 and 1 (KIP-1071). One heartbeat decides in this order,
and stores all of it in one batch:

1. who the member is, if it is new or has changed;
2. the topology of the group, if the member is the first to bring one;
3. the group epoch, if a member, the topology's topics or the settings have changed;
4. the target assignment, if the group epoch is ahead of it and no delay runs;
5. the member's next step towards its target (`member.reconcile`).

The answer waits until everything it is based on is committed. Internal topics that are missing are
created by the shell; the first heartbeat that finds them all leads to an assignment. As in Kafka, a
topology cannot be changed while the group exists (`TOPOLOGY_UPDATE`), source topics are given by
name, and nobody gets warm-up tasks.
"""

from __future__ import annotations

from minikafka.protocol.errors import ErrorCode
from minikafka.protocol.messages import streams_group_heartbeat

from ....data_class import replace
from ..classic.classic_group import ClassicGroup
from ..context import ShardContext
from ..effects import Ask
from ..write_errors import write_error
from .changes import Changes
from .draft import Draft
from .internal_topics import Configured, Problem, Status
from .member import JOINS, LEAVES, LEAVES_FOR_NOW, Identity, StreamsMember, reconcile
from .responses import Refusal, endpoints, heartbeat_accepted, heartbeat_refused, show_tasks
from .streams_group import StreamsGroup, is_away
from .tasks import NOTHING, Assignment, TaskId, Tasks
from .topology import requested

Request = streams_group_heartbeat.Request
Response = streams_group_heartbeat.Response

TOPOLOGY_UPDATE = "Topology updates are not supported yet."


class Heartbeats:
    def __init__(self, context: ShardContext, changes: Changes) -> None:
        self._context = context
        self._changes = changes

    def handle(self, ask: Ask, request: Request) -> None:
        try:
            _check_request(request)
            if request.member_epoch in (LEAVES, LEAVES_FOR_NOW):
                self._leave(ask, request)
            else:
                self._stay(ask, request)
        except Refusal as refusal:
            self._context.reply(ask.token, heartbeat_refused(refusal.error, refusal.message))

    # --- join and stay ---------------------------------------------------------------------

    def _stay(self, ask: Ask, request: Request) -> None:
        draft = self._draft_for(request)
        is_first = not draft.group.members
        self._check_room(draft.group, request)
        member = self._member_for(draft, request)
        owned = _owned(request)
        before = draft.group.members.get(member.member_id)
        is_changed = draft.identify(member.member_id, _identity(member, ask, request))
        is_changed |= self._set_topology(draft, request)
        if is_first:
            self._changes.await_members(draft)
        configured = self._changes.raise_epoch(draft, is_changed=is_changed)
        _check_tasks(configured, owned, member)
        problems = _problems(draft.group, member.member_id, configured)
        delayed = self._changes.assign(draft, configured)
        if delayed is not None:
            problems.append(delayed)
        member = self._step(draft, member.member_id, owned)
        if request.shutdown_application:
            self._request_shutdown(draft, member.member_id)
        problems += self._shutdown(draft.group.group_id, member.member_id, request)
        problems += self._missing_tags(request.group_id, member)
        answer = heartbeat_accepted(
            member.member_id,
            member.epoch,
            self._context.settings_of(request.group_id).streams_heartbeat_interval_ms,
            problems,
        )
        self._show_news(request, draft, before, member, owned, answer)
        if configured.missing:
            self._context.create_internal_topics(request.group_id, configured.missing)
        self._answer(ask, draft, before, member, answer)

    def _draft_for(self, request: Request) -> Draft:
        """The group, which is new if nobody uses its id."""
        found = self._context.groups.get(request.group_id)
        if isinstance(found, StreamsGroup):
            return Draft(found)
        if request.member_epoch == JOINS:
            if found is None:
                return Draft(StreamsGroup(request.group_id))
            if isinstance(found, ClassicGroup):
                return self._changes.replace_classic(found)
        what = "not found" if found is None else "is not a streams group"
        raise Refusal(ErrorCode.GROUP_ID_NOT_FOUND, f"Group {request.group_id} {what}.")

    def _check_room(self, group: StreamsGroup, request: Request) -> None:
        is_back = group.static_member(request.instance_id or "") is not None
        if request.member_id in group.members or is_back:
            return
        size_max = self._context.config.streams_max_size
        if len(group.members) >= size_max:
            raise Refusal(
                ErrorCode.GROUP_MAX_SIZE_REACHED,
                f"Group {group.group_id} has {len(group.members)} members; "
                f"group.streams.max.size is {size_max}.",
            )
        if not self._context.config.member_memory.has_room(0):
            raise Refusal(
                ErrorCode.GROUP_MAX_SIZE_REACHED,
                "The members of all groups take as much memory as they may.",
            )

    def _member_for(self, draft: Draft, request: Request) -> StreamsMember:
        """The member that sent this; a new one if it joins."""
        member_id, joins = request.member_id, request.member_epoch == JOINS
        if request.instance_id is not None:
            return self._static_member_for(draft, request, request.instance_id)
        member = draft.group.members.get(member_id)
        if member is None:
            if not joins:
                raise _unknown(member_id, request.group_id)
            return StreamsMember(member_id)
        if not joins:
            _check_epoch(member, request)
        return member

    def _static_member_for(self, draft: Draft, request: Request, instance_id: str) -> StreamsMember:
        member_id, member = request.member_id, draft.group.static_member(instance_id)
        if request.member_epoch != JOINS:
            member = _static_member(draft.group, request, instance_id)
            _check_epoch(member, request)
            return member
        if member is None:
            return draft.group.members.get(member_id) or StreamsMember(member_id)
        if member.member_id == member_id and not is_away(member):
            return member
        if not is_away(member):
            raise Refusal(
                ErrorCode.UNRELEASED_INSTANCE_ID,
                f"Instance id {instance_id} belongs to member {member.member_id}, which has not "
                "left the group.",
            )
        if member.member_id == member_id:
            draft.put(replace(member, epoch=JOINS, previous_epoch=JOINS))
        else:
            draft.replace(member, member_id)
        return draft.group.members[member_id]

    def _set_topology(self, draft: Draft, request: Request) -> bool:
        """The first member brings the topology of the group; those of the others must be equal."""
        group = draft.group
        if request.topology is None:
            if group.topology is None:
                raise Refusal(
                    ErrorCode.UNKNOWN_SERVER_ERROR,
                    "The topology is null and the group topology is also null.",
                )
            return False
        value = requested(request.topology)
        if group.topology is None:
            draft.set_topology(value)
            return True
        if value.epoch >= group.topology.epoch and value != group.topology_value:
            raise _invalid(TOPOLOGY_UPDATE)
        return False

    def _step(self, draft: Draft, member_id: str, owned: Assignment | None) -> StreamsMember:
        group = draft.group
        member = group.members[member_id]
        stepped = reconcile(
            member,
            group.assignment_epoch,
            group.target(member_id),
            is_free=lambda role, task: group.is_free_for(member, role, task),
            owned=owned,
        )
        if stepped is None:
            raise Refusal(
                ErrorCode.FENCED_MEMBER_EPOCH,
                f"Member {member_id} is in an unknown state: it has to give up all tasks and join "
                "again.",
            )
        draft.put(stepped)
        return stepped

    # --- what the answer says --------------------------------------------------------------

    def _request_shutdown(self, draft: Draft, member_id: str) -> None:
        group = self._changes.find(draft.group.group_id)
        if group is not None:
            group.shutdown_requested_by = member_id

    def _shutdown(self, group_id: str, member_id: str, request: Request) -> list[Problem]:
        group = self._changes.find(group_id)
        asked_by = None if group is None else group.shutdown_requested_by
        if asked_by is None and request.shutdown_application:
            asked_by = member_id
        if asked_by is None:
            return []
        return [
            Problem(
                Status.SHUTDOWN_APPLICATION,
                f"Streams group member {asked_by} encountered a fatal error and requested a "
                "shutdown for the entire application.",
            )
        ]

    def _missing_tags(self, group_id: str, member: StreamsMember) -> list[Problem]:
        known = {key for key, _ in member.identity.tags}
        tags = self._context.settings_of(group_id).streams_tags
        missing = ", ".join(key for key in tags if key not in known)
        if not missing:
            return []
        return [
            Problem(
                Status.MISSING_CLIENT_TAGS,
                f"Missing required client tags for rack-aware standby assignment: {missing}. "
                "Configure them via 'client.tag.<tagKey>' in your Streams config.",
            )
        ]

    def _show_news(
        self,
        request: Request,
        draft: Draft,
        before: StreamsMember | None,
        member: StreamsMember,
        owned: Assignment | None,
        answer: Response,
    ) -> None:
        """Tasks and endpoints, if the member does not know them.

        A member that owns something else may not know because an answer was lost: as it does not
        know which, it says all that it owns.
        """
        has_new_tasks = before is None or before.assigned != member.assigned
        is_unaware = owned is not None and owned != member.assigned
        has_new_endpoint = before is not None and (
            before.identity.endpoint != member.identity.endpoint
        )
        is_news = request.member_epoch == JOINS or has_new_tasks
        if is_news or is_unaware:
            show_tasks(answer, member.assigned)
        group = self._changes.find(request.group_id)
        if group is not None:  # a new group has no epoch of its own yet
            has_endpoint = member.identity.endpoint is not None
            group.endpoint_epoch += has_new_endpoint or (is_news and has_endpoint)
            answer.endpoint_information_epoch = group.endpoint_epoch
        if answer.endpoint_information_epoch != request.endpoint_information_epoch:
            answer.partitions_by_user_endpoint = endpoints(draft.group, self._context.topics)

    def _answer(
        self,
        ask: Ask,
        draft: Draft,
        before: StreamsMember | None,
        member: StreamsMember,
        answer: Response,
    ) -> None:
        group_id = draft.group.group_id
        self._changes.restart_session(group_id, member.member_id)
        if before is not member:
            self._changes.watch_revocation(group_id, member)

        def stored(error: ErrorCode) -> None:
            if error is ErrorCode.NONE:
                self._context.reply(ask.token, answer)
                return
            self._context.reply(ask.token, heartbeat_refused(write_error(error)))
            current = self._changes.find(group_id)
            if current is None or member.member_id not in current.members:
                self._changes.cancel_timers(group_id, member.member_id)

        self._changes.write(draft, stored)

    # --- leave -----------------------------------------------------------------------------

    def _leave(self, ask: Ask, request: Request) -> None:
        group = self._changes.find(request.group_id)
        if group is None:
            raise Refusal(
                ErrorCode.GROUP_ID_NOT_FOUND, f"Streams group {request.group_id} not found."
            )
        if request.instance_id is None:
            found = group.members.get(request.member_id)
            if found is None:
                raise _unknown(request.member_id, request.group_id)
            member = found
        else:
            member = _static_member(group, request, request.instance_id)
        member_id = member.member_id
        if request.shutdown_application:
            group.shutdown_requested_by = member_id

        def stored(error: ErrorCode) -> None:
            if error is not ErrorCode.NONE:
                self._context.reply(ask.token, heartbeat_refused(write_error(error)))
                return
            accepted = Response(member_id=member_id, member_epoch=request.member_epoch)
            self._context.reply(ask.token, accepted)
            current = self._changes.find(request.group_id)
            if current is None or member_id not in current.members:
                self._changes.cancel_timers(request.group_id, member_id)

        if request.member_epoch == LEAVES:
            self._changes.fence(group, member, stored)
            return
        # A static member that comes back: it keeps its tasks, but has given up what it was told
        # to. Its session goes on.
        draft = Draft(group)
        since = dict.fromkeys(member.assigned.active, 0)
        draft.put(replace(member, epoch=LEAVES_FOR_NOW, revoking=NOTHING, since=since))
        self._changes.write(draft, stored)


def _static_member(group: StreamsGroup, request: Request, instance_id: str) -> StreamsMember:
    """The member that has an instance id, if it sent this request."""
    member = group.static_member(instance_id)
    if member is None:
        raise Refusal(
            ErrorCode.UNKNOWN_MEMBER_ID, f"Instance id {instance_id} is not in the group."
        )
    if member.member_id != request.member_id:
        raise Refusal(
            ErrorCode.FENCED_INSTANCE_ID,
            f"Member {request.member_id} was replaced by {member.member_id}: both have the "
            f"instance id {instance_id}.",
        )
    return member


def _problems(group: StreamsGroup, member_id: str, configured: Configured) -> list[Problem]:
    problems: list[Problem] = []
    epoch = group.members[member_id].identity.topology_epoch
    if group.topology is not None and epoch < group.topology.epoch:
        problems.append(
            Problem(
                Status.STALE_TOPOLOGY,
                f"The member's topology epoch {epoch} is behind the group's topology epoch "
                f"{group.topology.epoch}.",
            )
        )
    if configured.problem is not None:
        problems.append(configured.problem)
    return problems


# --- what is wrong with a request ------------------------------------------------------------


def _check_request(request: Request) -> None:
    for one in () if request.topology is None else request.topology.subtopologies:
        if one.source_topic_regex:
            raise _invalid("Regular expressions for source topics are not supported yet.")
    for name, text in (
        ("MemberId", request.member_id),
        ("GroupId", request.group_id),
        ("InstanceId", request.instance_id),
        ("RackId", request.rack_id),
    ):
        if text is not None and not text.strip():
            raise _invalid(f"{name} can't be empty.")
    epoch = request.member_epoch
    if epoch < LEAVES_FOR_NOW:
        raise _invalid(f"MemberEpoch is {epoch}, but must be greater than or equal to -2.")
    if epoch == LEAVES_FOR_NOW and request.instance_id is None:
        raise _invalid("InstanceId can't be null.")
    tasks = (request.active_tasks, request.standby_tasks, request.warmup_tasks)
    if any(one is None for one in tasks) and any(one is not None for one in tasks):
        raise _invalid("If one task-type is non-null, all must be non-null.")
    if epoch == JOINS:
        _check_join(request)
    elif request.topology is not None:
        raise _invalid("Topology can only be provided when (re-)joining.")


def _check_join(request: Request) -> None:
    if request.rebalance_timeout_ms < 0:
        raise _invalid("RebalanceTimeoutMs must be provided in first request.")
    for name, tasks in (
        ("ActiveTasks", request.active_tasks),
        ("StandbyTasks", request.standby_tasks),
        ("WarmupTasks", request.warmup_tasks),
    ):
        if tasks is None or tasks:
            raise _invalid(f"{name} must be empty when (re-)joining.")
    if request.topology is None:
        raise _invalid("Topology must be non-null when (re-)joining.")
    for one in request.topology.subtopologies:
        for topic in one.repartition_source_topics:
            if topic.partitions < 0:
                raise Refusal(
                    ErrorCode.STREAMS_INVALID_TOPOLOGY,
                    f"Repartition topic {topic.name} cannot have {topic.partitions} partitions.",
                )
        for topic in one.state_changelog_topics:
            if topic.partitions:
                raise Refusal(
                    ErrorCode.STREAMS_INVALID_TOPOLOGY,
                    f"Changelog topic {topic.name} must have an undefined partition count, but it "
                    f"is set to {topic.partitions}.",
                )
        _check_copartition_groups(one)


def _check_copartition_groups(one: streams_group_heartbeat.Subtopology) -> None:
    """The indexes of a copartition group must be those of topics."""
    for group in one.copartition_groups:
        for indexes, topics in (
            (group.source_topics, len(one.source_topics)),
            (group.source_topic_regex, 0),
            (group.repartition_source_topics, len(one.repartition_source_topics)),
        ):
            if any(not 0 <= index < topics for index in indexes):
                raise Refusal(
                    ErrorCode.STREAMS_INVALID_TOPOLOGY,
                    f"Subtopology {one.subtopology_id} has {topics} topics of a kind, and a "
                    f"copartition group names those with the indexes {indexes}.",
                )


def _check_tasks(configured: Configured, owned: Assignment | None, member: StreamsMember) -> None:
    """Refuse tasks that never were; those of a topic that was made smaller are given up later."""
    if not configured.is_ready or owned is None:
        return
    for _, tasks in owned.without(member.assigned.union(member.revoking)).by_role():
        for task in tasks:
            count = configured.task_counts.get(task.subtopology_id)
            if count is None:
                raise _invalid(f"Subtopology {task.subtopology_id} does not exist in the topology.")
            if not 0 <= task.partition < count:
                raise _invalid(
                    f"Task {task.partition} for subtopology {task.subtopology_id} is invalid. "
                    f"Number of tasks for this subtopology: {count}"
                )


def _check_epoch(member: StreamsMember, request: Request) -> None:
    """Fence a member whose epoch is not the broker's; the one before may be in use still."""
    epoch = request.member_epoch
    if epoch == member.epoch:
        return
    owned = _owned(request)
    is_answer_lost = (
        epoch == member.previous_epoch and owned is not None and owned.is_within(member.assigned)
    )
    if epoch > member.epoch or not is_answer_lost:
        raise Refusal(
            ErrorCode.FENCED_MEMBER_EPOCH,
            f"Member {member.member_id} has epoch {epoch}, and the group coordinator knows epoch "
            f"{member.epoch}: it has to give up all tasks and join again.",
        )


def _invalid(message: str) -> Refusal:
    return Refusal(ErrorCode.INVALID_REQUEST, message)


def _unknown(member_id: str, group_id: str) -> Refusal:
    return Refusal(
        ErrorCode.UNKNOWN_MEMBER_ID, f"Member {member_id} is not a member of group {group_id}."
    )


# --- what a request says ---------------------------------------------------------------------


def _owned(request: Request) -> Assignment | None:
    tasks = (request.active_tasks, request.standby_tasks, request.warmup_tasks)
    if any(one is None for one in tasks):
        return None
    return Assignment(*(_tasks(one or ()) for one in tasks))


def _tasks(structs: list[streams_group_heartbeat.TaskIds] | tuple[()]) -> Tasks:
    return frozenset(
        TaskId(one.subtopology_id, index) for one in structs for index in one.partitions
    )


def _identity(member: StreamsMember, ask: Ask, request: Request) -> Identity:
    """Who the member is with what the request says; null means that nothing changed."""
    before = member.identity
    endpoint, tags = request.user_endpoint, request.client_tags
    timeout_ms = request.rebalance_timeout_ms
    known_endpoint = None if request.member_epoch == JOINS else before.endpoint
    return Identity(
        instance_id=before.instance_id if request.instance_id is None else request.instance_id,
        rack_id=before.rack_id if request.rack_id is None else request.rack_id,
        client_id=ask.client_id,
        client_host=ask.client_host,
        rebalance_timeout_ms=before.rebalance_timeout_ms if timeout_ms < 0 else timeout_ms,
        topology_epoch=before.topology_epoch
        if request.topology is None
        else request.topology.epoch,
        process_id=before.process_id if request.process_id is None else request.process_id,
        endpoint=known_endpoint if endpoint is None else (endpoint.host, endpoint.port),
        tags=before.tags if tags is None else tuple(sorted((one.key, one.value) for one in tags)),
    )
