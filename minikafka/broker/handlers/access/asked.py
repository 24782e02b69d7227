"""A request before its rule: what it may do, and how it is answered."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any, Final

from ....protocol.api import ApiKey, response_class
from ....protocol.error_responses import error_response
from ....protocol.errors import ErrorCode
from ....protocol.fields import ZERO_UUID
from ....protocol.schema import Response
from ....security.acl import Operation, ResourceType
from ...system.pace import PIECE_ENTRIES, Pace

if TYPE_CHECKING:
    from ...broker import Broker
    from ...control.request_context import RequestContext

__all__ = ["Asked", "as_response", "serve"]

_WORDS: Final = {
    ErrorCode.TOPIC_AUTHORIZATION_FAILED: "topic",
    ErrorCode.GROUP_AUTHORIZATION_FAILED: "group",
    ErrorCode.CLUSTER_AUTHORIZATION_FAILED: "cluster",
    ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED: "transactional id",
}


class Asked:
    """One request.

    Attributes:
        request: what is left of it for the handler.
        context: who asks, in which version.
        pace: keeps turns short.
    """

    __slots__ = ("_handle", "authorization", "broker", "context", "pace", "request")

    def __init__(
        self,
        broker: Broker,
        context: RequestContext,
        request: Any,
        handle: Callable[..., Awaitable[Any]],
    ) -> None:
        assert broker.authorization is not None
        self.authorization = broker.authorization
        self.broker = broker
        self.context = context
        self.request = request
        self.pace = Pace(broker.clock.monotonic)
        self._handle = handle

    @property
    def version(self) -> int:
        """Of the request."""
        return self.context.api_version

    # --- rights --------------------------------------------------------------------------------

    def may(self, operation: Operation, kind: ResourceType, name: str) -> bool:
        """Whether the client may do something to a resource."""
        return self.authorization.allows(self.context, operation, kind, name)

    def may_cluster(self, operation: Operation) -> bool:
        """Whether the client may do something to the cluster."""
        return self.authorization.allows_for_cluster(self.context, operation)

    def sees_topic(self, name: str) -> bool:
        """Whether the client may know that there is such a topic."""
        return self.may(Operation.DESCRIBE, ResourceType.TOPIC, name)

    def operations(self, kind: ResourceType, name: str) -> int:
        """What the client may do to a resource, as a bit field."""
        return self.authorization.operations_of(self.context, kind, name)

    def needs_topic(
        self, operation: Operation, name_of: Callable[[Any], str | None]
    ) -> Callable[[Any], ErrorCode]:
        """A rule for entries: a right to a topic; one that the broker cannot name is let pass."""
        return self._needs(
            operation, ResourceType.TOPIC, name_of, ErrorCode.TOPIC_AUTHORIZATION_FAILED
        )

    def needs_group(self, operation: Operation) -> Callable[[str], ErrorCode]:
        """A rule for entries that are group ids."""
        return self._needs(operation, ResourceType.GROUP, str, ErrorCode.GROUP_AUTHORIZATION_FAILED)

    def _needs(
        self,
        operation: Operation,
        kind: ResourceType,
        name_of: Callable[[Any], str | None],
        code: ErrorCode,
    ) -> Callable[[Any], ErrorCode]:
        def rule(entry: Any) -> ErrorCode:
            name = name_of(entry)
            return ErrorCode.NONE if name is None or self.may(operation, kind, name) else code

        return rule

    def name_of_topic(self, name: str | None, topic_id: bytes) -> str | None:
        """A topic that is named by its id, or else by its name; None if its id is unknown."""
        if topic_id == ZERO_UUID:
            return name or None
        topic = self.broker.image.topics_by_id.get(topic_id)
        return None if topic is None else topic.name

    # --- answers -------------------------------------------------------------------------------

    async def proceed(self, request: Any = None) -> Any:
        """The handler's answer to what is left of the request."""
        return await self._handle(self.broker, self.context, request or self.request)

    async def refuse(self, code: ErrorCode, request: Any = None) -> Any:
        """The answer to a request of which nothing is done."""
        asked = self.request if request is None else request
        make = partial(
            error_response,
            asked,
            response_class(ApiKey(self.context.api_key)),
            self.context.api_version,
            code,
        )
        response: Any
        if _size(asked) > PIECE_ENTRIES:
            response = await self.broker.run_in_thread(make)
        else:
            response = make()
        if hasattr(response, "error_message"):
            response.error_message = _why(code)
        return response

    async def refuse_if_not(self, is_allowed: bool, code: ErrorCode) -> Any:
        """The handler's answer, or an error for the whole request."""
        return await self.proceed() if is_allowed else await self.refuse(code)

    async def each(
        self,
        entries: str,
        answers: str,
        rule: Callable[[Any], ErrorCode],
        *,
        always: bool = False,
    ) -> Any:
        """Answer a request in which each entry is allowed or refused.

        Args:
            entries: the request's array.
            answers: the array of the response with one answer for each entry.
            rule: the error for an entry, or NONE.
            always: ask the handler even if no entry is left.
        """
        allowed: list[Any] = []
        refused: dict[ErrorCode, list[Any]] = {}
        async for entry in self.pace.each(getattr(self.request, entries) or ()):
            code = rule(entry)
            (allowed if code is ErrorCode.NONE else refused.setdefault(code, [])).append(entry)
        if not refused:
            return await self.proceed()
        response: Any = None
        if allowed or always:
            setattr(self.request, entries, allowed)
            response = await self.proceed()
        return await self.add_refused(response, entries, answers, refused)

    async def add_refused(
        self, response: Any, entries: str, answers: str, refused: Mapping[ErrorCode, Sequence[Any]]
    ) -> Any:
        """Add what was refused to an answer, or make one of it."""
        for code, some in refused.items():
            setattr(self.request, entries, some)
            more = await self.refuse(code)
            for answer in getattr(more, answers):
                if hasattr(answer, "error_message"):
                    answer.error_message = _why(code)
            if response is None:
                response = more
                _clear(response)
            else:
                setattr(response, answers, [*getattr(response, answers), *getattr(more, answers)])
        return response

    async def repeated(self, keys: Iterable[Any]) -> set[Any]:
        """Those that the request names more than once."""
        return await self.pace.repeated(keys)


def _clear(response: Any) -> None:
    """Only entries of this response have errors."""
    if hasattr(response, "error_code"):
        response.error_code = ErrorCode.NONE
    if hasattr(response, "error_message"):
        response.error_message = None


def _why(code: ErrorCode) -> str:
    what = _WORDS.get(code)
    return code.name if what is None else f"No ACL gives the right that this needs to the {what}."


def _size(request: Any) -> int:
    """About how many entries a request has."""
    size = 0
    for field in request.FIELDS:
        if field.kind == "array":
            entries: Sequence[Any] = getattr(request, field.name) or ()
            size += len(entries)
            if len(entries) <= PIECE_ENTRIES:
                size += sum(_size(one) for one in entries if hasattr(one, "FIELDS"))
    return size


def as_response(response: Any) -> Response:
    """The response of an answer that may come later."""
    found: Response = getattr(response, "response", response)
    return found


def serve(
    rule: Callable[[Asked], Awaitable[Any]],
    handle: Callable[..., Awaitable[Any]],
    broker: Broker,
    context: RequestContext,
    request: Any,
) -> Awaitable[Any]:
    """Answer a request behind a rule."""
    return rule(Asked(broker, context, request, handle))
