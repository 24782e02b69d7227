"""True signatures at run time, for what type checkers already see.

``**options: Unpack[ProducerOptions]`` and a method made from a plan are clear to a type checker,
but `inspect.signature` and `help` would show ``**options`` or ``*args``. Here they get what a
caller writes.
"""

from __future__ import annotations

import functools
import inspect
import re
from collections.abc import Callable, Collection, Mapping
from dataclasses import MISSING, fields
from types import TracebackType
from typing import TYPE_CHECKING, Any, Final, TypeVar

if TYPE_CHECKING:
    from _typeshed import DataclassInstance

_Function = TypeVar("_Function", bound=Callable[..., Any])

ExcDetails = tuple[type[BaseException] | None, BaseException | None, TracebackType | None]
"""What ``__exit__`` and ``__aexit__`` take."""

REQUIRED: Final = inspect.Parameter.empty
"""In the place of a default."""


def with_options(
    *configs: type[DataclassInstance],
    arguments: type | None = None,
    without: Collection[str] = (),
    defaults: Mapping[str, object] | None = None,
) -> Callable[[_Function], _Function]:
    """Decorate a function that takes ``**options``: show each option with its default.

    Args:
        configs: dataclasses whose fields are the options.
        arguments: a TypedDict of others, which are None by default.
        without: options that the function does not take.
        defaults: those that differ from the dataclass's; `REQUIRED`: there is none.
    """
    others = defaults or {}

    def decorate(function: _Function) -> _Function:
        signature = inspect.signature(function)
        parameters = [
            each
            for each in signature.parameters.values()
            if each.kind is not inspect.Parameter.VAR_KEYWORD
        ]
        parameters += [
            inspect.Parameter(
                name,
                inspect.Parameter.KEYWORD_ONLY,
                default=None,
                annotation=annotation.__forward_arg__,
            )
            for name, annotation in getattr(arguments, "__annotations__", {}).items()
        ]
        parameters += [
            inspect.Parameter(
                field.name,
                inspect.Parameter.KEYWORD_ONLY,
                default=others.get(
                    field.name, REQUIRED if field.default is MISSING else field.default
                ),
                annotation=field.type,
            )
            for config in configs
            for field in fields(config)
            if field.name not in without
        ]
        function.__signature__ = signature.replace(  # type: ignore[attr-defined]  # read by inspect
            parameters=parameters
        )
        return function

    return decorate


def as_method_of_plan(function: _Function, plan: Callable[..., Any]) -> _Function:
    """Copy the name, docstring and signature of a plan to the method that runs it.

    The first parameter of a plan is the cluster, which a method has in ``self``; what a plan
    returns in the end, a method returns.
    """
    functools.update_wrapper(function, plan)
    # The text of a plan also explains the cluster.
    function.__doc__ = re.sub(r"^ *cluster: .*\n", "", plan.__doc__ or "", flags=re.MULTILINE)
    signature = inspect.signature(plan)
    _, *parameters = signature.parameters.values()
    this = inspect.Parameter("self", inspect.Parameter.POSITIONAL_OR_KEYWORD)
    result = signature.return_annotation
    if isinstance(result, str):
        result = result.removeprefix("Plan[").removesuffix("]")
    function.__signature__ = signature.replace(  # type: ignore[attr-defined]  # read by inspect
        parameters=[this, *parameters], return_annotation=result
    )
    return function
