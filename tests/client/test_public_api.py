"""What a user sees of the client without reading its source: names, signatures, help."""

from __future__ import annotations

import inspect
import pickle
import pydoc
import subprocess
import sys
from collections.abc import Iterator
from importlib import import_module
from typing import Protocol, get_type_hints

import pytest

import minikafka_client
from minikafka.protocol.errors import ErrorCode
from minikafka_client import BrokerError, KafkaError, SomeFailedError, TopicPartition
from minikafka_client.consumer_options import ConsumerConfig, ConsumerOptions
from minikafka_client.options import ConnectionConfig, ConnectionOptions
from minikafka_client.producer_options import ProducerConfig, ProducerOptions

PACKAGES = [
    "minikafka_client",
    "minikafka_client.sync",
    "minikafka_client.patterns",
    "minikafka_client.patterns.blocking",
]
VARIADIC = (inspect.Parameter.VAR_POSITIONAL, inspect.Parameter.VAR_KEYWORD)


def public_classes(package: str) -> Iterator[tuple[str, type]]:
    module = import_module(package)
    for name in module.__all__:
        found = getattr(module, name)
        # One package may also offer what another one has.
        if inspect.isclass(found) and found.__module__ not in {*PACKAGES} - {package}:
            yield f"{package}.{name}", found


CLASSES = dict(each for package in PACKAGES for each in public_classes(package))


def public_methods(owner: type) -> Iterator[tuple[str, object]]:
    """Those that the client defines, not those of tuples, exceptions and enums."""
    for name in dir(owner):
        home = next((base for base in owner.__mro__ if name in vars(base)), object)
        is_ours = home.__module__.startswith("minikafka_client")
        if is_ours and not name.startswith("_") and name not in getattr(owner, "_fields", ()):
            yield name, getattr(owner, name)


METHODS = {
    f"{path}.{name}": method
    for path, owner in CLASSES.items()
    for name, method in public_methods(owner)
    if callable(method) or isinstance(method, property)
}


@pytest.mark.parametrize("path", METHODS)
def test_a_method_shows_what_a_caller_writes(path: str) -> None:
    method = METHODS[path]
    assert inspect.getdoc(method), f"{path} has no docstring"
    if callable(method):
        for parameter in inspect.signature(method).parameters.values():
            assert parameter.kind not in VARIADIC, f"{path} takes {parameter}"


@pytest.mark.parametrize("path", CLASSES)
def test_a_class_shows_what_a_caller_writes(path: str) -> None:
    owner: type[object] = CLASSES[path]
    assert inspect.getdoc(owner), f"{path} has no docstring"
    is_called = not issubclass(owner, KafkaError) and Protocol not in owner.__bases__
    if "__init__" in vars(owner) and is_called:
        for parameter in inspect.signature(owner).parameters.values():
            assert parameter.kind not in VARIADIC, f"{path} takes {parameter}"


def test_the_methods_that_were_made_from_plans_have_the_plans_signatures() -> None:
    signature = inspect.signature(minikafka_client.AdminClient.create_topics)
    assert list(signature.parameters) == ["self", "topics", "validate_only", "timeout_ms"]
    assert signature.return_annotation == "dict[str, CreatedTopic]"
    assert inspect.iscoroutinefunction(minikafka_client.AdminClient.create_topics)
    text = pydoc.plain(pydoc.render_doc(minikafka_client.AdminClient))
    assert "create_topics(self, topics: 'Iterable[NewTopic]', *, validate_only" in text


def test_options_are_shown_with_their_defaults() -> None:
    parameters = inspect.signature(minikafka_client.Consumer).parameters
    assert parameters["isolation_level"].default == "read_uncommitted"
    assert parameters["client_id"].default == "minikafka-client"


@pytest.mark.parametrize(
    ("given", "configs"),
    [
        (ConnectionOptions, [ConnectionConfig]),
        (ProducerOptions, [ProducerConfig, ConnectionConfig]),
        (ConsumerOptions, [ConsumerConfig, ConnectionConfig]),
    ],
)
def test_type_checkers_and_programs_see_the_same_options(
    given: type[object], configs: list[type]
) -> None:
    fields: dict[str, object] = {}
    for config in configs:
        fields |= config.__annotations__
    declared: dict[str, object] = given.__annotations__
    assert {name: _text(each) for name, each in declared.items()} == {
        name: _text(each) for name, each in fields.items()
    }


def _text(annotation: object) -> str:
    return getattr(annotation, "__forward_arg__", str(annotation))


@pytest.mark.parametrize("path", CLASSES)
def test_a_class_reports_the_package_it_is_imported_from(path: str) -> None:
    package, name = path.rsplit(".", 1)
    assert (CLASSES[path].__module__, CLASSES[path].__qualname__) == (package, name)


def test_an_error_is_shown_under_its_public_name_though_it_was_never_imported() -> None:
    program = """
import minikafka_client
minikafka_client.Producer
from minikafka_client.errors import broker_error
raise broker_error(3, "topic 'a'")
"""
    ran = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)
    assert "minikafka_client.UnknownTopicError: topic 'a'" in ran.stderr


def test_importing_the_package_imports_no_trio() -> None:
    program = "import sys, minikafka_client; sys.exit('trio' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", program]).returncode == 0


@pytest.mark.parametrize(
    "value",
    [
        BrokerError(ErrorCode.NOT_CONTROLLER, "creating topic 'a'", "not me"),
        minikafka_client.UnknownTopicError("topic 'a'"),
        minikafka_client.FencedError("replaced"),
        minikafka_client.NotDeliveredError(3, KafkaError("lost")),
        SomeFailedError({"a": KafkaError("lost")}, {"b": 1}),
        minikafka_client.LogTruncationError(
            TopicPartition("a", 0),
            minikafka_client.OffsetAndMetadata(5),
            minikafka_client.OffsetAndMetadata(3),
        ),
        minikafka_client.DeserializationError("a", 0, 5, "key", b"x", "json"),
        TopicPartition("a", 0),
        minikafka_client.IsolationLevel.READ_COMMITTED,
        minikafka_client.AutoOffsetReset.NONE,
        minikafka_client.PreparedTransactionState(5, 1),
    ],
    ids=lambda value: type(value).__name__,
)
def test_values_and_errors_can_be_pickled(value: object) -> None:
    copy = pickle.loads(pickle.dumps(value))
    assert type(copy) is type(value)
    assert str(copy) == str(value)
    if not isinstance(value, KafkaError):
        assert copy == value


def test_a_result_of_a_plan_has_types_that_can_be_looked_up() -> None:
    assert get_type_hints(minikafka_client.RecordMetadata)["topic"] is str
