"""Places for the answers to requests: one for a task that waits, one for a plain function."""

from __future__ import annotations

from collections.abc import Callable

import trio

from .frames import Frame, FrameKind, Reply
from .link import RpcError, RpcRemoteError

OnAnswer = Callable[[Reply | RpcError], None]


class Call:
    """A place for one answer, and the task that waits for it."""

    __slots__ = ("_answer", "_task")

    def __init__(self) -> None:
        self._answer: Frame | RpcError | None = None
        self._task: trio.lowlevel.Task | None = None

    def put(self, answer: Frame | RpcError) -> None:
        """The answer is there, or there is none."""
        if self._answer is None:
            self._answer = answer
            if self._task is not None:
                trio.lowlevel.reschedule(self._task)
                self._task = None

    async def wait(self) -> Frame:
        """Wait for the answer.

        Raises:
            RpcError: there is none.
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


class Callback:
    """A function that takes one answer."""

    __slots__ = ("_on_answer",)

    def __init__(self, on_answer: OnAnswer) -> None:
        self._on_answer: OnAnswer | None = on_answer

    def put(self, answer: Frame | RpcError) -> None:
        """Call the function, once."""
        on_answer, self._on_answer = self._on_answer, None
        if on_answer is None:
            return
        if isinstance(answer, RpcError):
            on_answer(answer)
        elif answer.kind == FrameKind.FAILURE:
            on_answer(RpcRemoteError(answer.name, str(answer.fields)))
        else:
            on_answer(Reply(answer.fields, answer.attachments))
