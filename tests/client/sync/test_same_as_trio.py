"""Both APIs have the same names, with the same parameters, for the same things.

What differs is listed here, with its reason.
"""

from __future__ import annotations

import inspect
import subprocess
import sys
from importlib import import_module
from typing import Any

import pytest

import minikafka_client
from minikafka_client import patterns, sync
from minikafka_client.patterns import blocking

SYNC_NAMES: list[str] = import_module(sync.__name__).__all__  # set when it is imported
PAIRS: dict[str, tuple[type, type]] = {
    **{
        f"sync.{name}": (getattr(sync, name), getattr(minikafka_client, name))
        for name in SYNC_NAMES
        if name not in {"Reader", "Writer", "TransactionalWriter"}  # they exist without trio only
    },
    **{
        f"patterns.blocking.{name}": (getattr(blocking, name), getattr(patterns, name))
        for name in blocking.__all__
        if name != "OffsetStore"  # the same class
    },
}

MADE_BY_OTHERS = {"sync.Transaction", "patterns.blocking.TransformBatch"}
ONLY_BLOCKING = {
    "sync.AdminClient.close": "it has no task and no thread, so it may do without a block",
    "sync.Deliveries.result": "the trio ones are awaited",
}
ONLY_TRIO = {
    "patterns.blocking.ConsumeTransformProduce.producer": "only the batch's send may be used",
    "patterns.blocking.AtLeastOnce.buffer": "the blocking one draws from it",
    "patterns.blocking.AtMostOnce.buffer": "the blocking one draws from it",
}
DIFFERENT_PARAMETERS = {
    "sync.Delivery.result": "it waits, so it has a timeout; the trio one is awaited"
}
# What these return is awaited or iterated over in the trio API.
BLOCKING_RESULTS = [("AsyncIterator[", "Iterator["), ("Coroutine[Any, Any, ", "")]


def public_names(owner: type) -> set[str]:
    annotated = {name for base in owner.__mro__ for name in getattr(base, "__annotations__", {})}
    return {
        name
        for name in {*dir(owner), *annotated}
        if not name.startswith("_") and not hasattr(tuple, name) and not hasattr(Exception, name)
    }


def parameters(function: Any) -> list[tuple[str, Any, Any]]:
    found = inspect.signature(function).parameters.values()
    return [(each.name, each.kind, each.default) for each in found]


@pytest.mark.parametrize("path", PAIRS)
def test_the_names_are_the_same(path: str) -> None:
    blocking_class, trio_class = PAIRS[path]
    only_blocking = public_names(blocking_class) - public_names(trio_class)
    only_trio = public_names(trio_class) - public_names(blocking_class)
    assert {f"{path}.{name}" for name in only_blocking} <= ONLY_BLOCKING.keys()
    assert {f"{path}.{name}" for name in only_trio} <= ONLY_TRIO.keys()


@pytest.mark.parametrize("path", sorted(PAIRS.keys() - MADE_BY_OTHERS))
def test_the_arguments_of_a_class_are_the_same(path: str) -> None:
    blocking_class, trio_class = PAIRS[path]
    assert parameters(blocking_class) == parameters(trio_class)


@pytest.mark.parametrize(
    "path",
    [
        f"{path}.{name}"
        for path, pair in PAIRS.items()
        for name in sorted(public_names(pair[0]) & public_names(pair[1]))
    ],
)
def test_a_method_has_the_same_parameters_and_result(path: str) -> None:
    owner, _, name = path.rpartition(".")
    ours, theirs = (inspect.getattr_static(each, name, None) for each in PAIRS[owner])
    if isinstance(ours, property):
        ours, theirs = ours.fget, getattr(theirs, "fget", None)
    elif isinstance(ours, classmethod):
        ours, theirs = ours.__func__, theirs.__func__
    if not callable(ours) or not callable(theirs):
        return
    if path in DIFFERENT_PARAMETERS:
        assert parameters(ours) != parameters(theirs)
        return
    assert parameters(ours) == parameters(theirs)
    result = inspect.signature(theirs).return_annotation
    for old, new in BLOCKING_RESULTS:
        result = result.replace(old, new)
    assert inspect.signature(ours).return_annotation == result
    assert not inspect.iscoroutinefunction(ours)


def test_no_exception_is_listed_that_is_none() -> None:
    names = {
        f"{path}.{name}": tuple(name in public_names(each) for each in pair)
        for path, pair in PAIRS.items()
        for name in public_names(pair[0]) | public_names(pair[1])
    }
    assert [path for path in ONLY_BLOCKING if names.get(path) != (True, False)] == []
    assert [path for path in ONLY_TRIO if names.get(path) != (False, True)] == []


def test_what_worker_processes_use_needs_no_trio() -> None:
    names = "AdminClient, Reader, TransactionalWriter, Writer"
    program = (
        f"import sys; from minikafka_client.sync import {names}; sys.exit('trio' in sys.modules)"
    )
    assert subprocess.run([sys.executable, "-c", program]).returncode == 0
