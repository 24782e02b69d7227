"""Turns a plan into a blocking method, with the plan's signature and docstring."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any, Concatenate, Generic, ParamSpec, Protocol, TypeVar, overload

from minikafka_client.core.cluster import Cluster
from minikafka_client.plans.ask import Plan

_P = ParamSpec("_P")
_Result = TypeVar("_Result")


class RunsPlans(Protocol):
    """An object whose methods can be plans."""

    def run_plan(self, start: Callable[[Cluster], Plan[_Result]]) -> _Result:
        """Drive a plan to its end and return its result."""
        ...


class method(Generic[_P, _Result]):  # noqa: N801 - it stands where ``def`` would
    """``create_topics = method(plans.topics.create_topics)``: call it as any method."""

    def __init__(self, plan: Callable[Concatenate[Cluster, _P], Plan[_Result]]) -> None:
        self._plan = plan
        self.__doc__ = plan.__doc__

    @overload
    def __get__(self, instance: None, owner: type) -> method[_P, _Result]: ...

    @overload
    def __get__(self, instance: RunsPlans, owner: type) -> Callable[_P, _Result]: ...

    def __get__(self, instance: RunsPlans | None, owner: type) -> Any:
        """Bind the plan to a client."""
        if instance is None:
            return self
        plan = self._plan

        @functools.wraps(plan)
        def run(*args: _P.args, **kwargs: _P.kwargs) -> _Result:
            return instance.run_plan(lambda cluster: plan(cluster, *args, **kwargs))

        return run
