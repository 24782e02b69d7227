"""Places for the answers to requests: one for a task that waits, one for a plain function."""

from __future__ import annotations

from collections.abc import Callable
from typing import Generic, TypeVar

import trio

from .codec import Codec, MalformedFieldsError, Reply
from .errors import RpcError, RpcMalformedError, RpcRemoteError
from .frames import Frame, FrameKind

_A = TypeVar("_A")


OnAnswer = Callable[[Reply[_A] | RpcError], None]


class Call:
    """A place for one answer, and the task that waits for it."""

    __slots__ = ("_answer", "_task")

    def __init__(self) -> None:
        self._answer: Frame | RpcError | None = None
        self._task: trio.lowlevel.Task | None = None

    def put(self, answer: Frame | RpcError) -> None:
        """Deliver the answer, or why there is none."""
        if self._answer is None:
            self._answer = answer
            if self._task is not None:
                trio.lowlevel.reschedule(self._task)
                self._task = None

    async def wait(self) -> Frame:
        """Wait for the answer.

        Raises:
            RpcError: there is no answer.
        """
        if self._answer is None:

            def abort(_: object) -> trio.lowlevel.Abort:
                self._task = None
                return trio.lowlevel.Abort.SUCCEEDED

            self._task = trio.lowlevel.current_task()
            await trio.lowlevel.wait_task_rescheduled(abort)
        answer = self._answer
        assert answer is not None
        if isinstance(answer, RpcError):
            raise answer
        return answer


class Callback(Generic[_A]):
    """A function that takes one answer."""

    __slots__ = ("_codec", "_on_answer")

    def __init__(self, codec: Codec[_A], on_answer: OnAnswer[_A]) -> None:
        self._codec = codec
        self._on_answer: OnAnswer[_A] | None = on_answer

    def put(self, answer: Frame | RpcError) -> None:
        on_answer, self._on_answer = self._on_answer, None
        if on_answer is None:
            return
        if not isinstance(answer, RpcError):
            try:
                reply = reply_of(answer, self._codec)
            except RpcError as error:
                answer = error
            else:
                on_answer(reply)
                return
        on_answer(answer)


def reply_of(frame: Frame, codec: Codec[_A]) -> Reply[_A]:
    """The reply in a frame.

    Raises:
        RpcRemoteError: the other side says that it cannot.
        RpcMalformedError: it is not an answer to what was asked.
    """
    if frame.kind == FrameKind.FAILURE:
        raise RpcRemoteError(frame.name, str(frame.fields))
    try:
        return Reply(codec.decode(frame.fields), frame.attachments)
    except MalformedFieldsError as error:
        raise RpcMalformedError(str(error)) from None
