"""Apache Kafka's Java clients, driven from a test: a thin wrapper around `java/Peer.java`."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Self

from tests.interop.clients import Outgoing
from tests.kit.waiting import work_until
from tests.peers.java_runtime import classes, jars, java_command

Settings = Mapping[str, object]


class JavaError(Exception):
    """An exception of the Java client.

    Attributes:
        name: its class, without the package.
    """

    def __init__(self, name: str, message: str) -> None:
        super().__init__(f"{name}: {message}")
        self.name = name


class JavaClients:
    """A JVM with producers, consumers and an admin client; from one thread only.

    Args:
        log_path: gets what the clients log.
        pom: names other jars than those that `java/` was compiled with.
    """

    def __init__(self, log_path: Path, pom: Path | None = None) -> None:
        where = None if pom is None else f"{classes()}:{jars(pom)}/*"
        command = java_command("Peer", log_level="warn", classes_and_jars=where)
        with log_path.open("ab") as log:
            self._process = subprocess.Popen(
                command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=log
            )

    def ask(self, operation: str, **arguments: object) -> Any:
        """Have something done; see `java/` for what there is.

        Raises:
            JavaError: the client threw an exception.
        """
        stdin, stdout = self._process.stdin, self._process.stdout
        assert stdin is not None
        assert stdout is not None
        stdin.write(json.dumps({"do": operation, **arguments}).encode() + b"\n")
        stdin.flush()
        line = stdout.readline()
        assert line, f"the JVM ended with {self._process.wait()}"
        answer: dict[str, Any] = json.loads(line)
        if "error" in answer:
            raise JavaError(answer["error"], answer["message"])
        return answer["result"]

    def produce(
        self, bootstrap: str, topic: str, records: list[Outgoing], **settings: object
    ) -> list[dict[str, int]]:
        """Send records; returns partition, offset and timestamp of each.

        Args:
            bootstrap: the broker.
            topic: where to.
            records: to partition 0.
            settings: Kafka's names, with ``_`` for dots.
        """
        shown = [
            {
                "partition": 0,
                "key": _text(record.key),
                "value": _text(record.value),
                "headers": [[name, _text(value)] for name, value in record.headers],
                "timestamp": record.timestamp_ms,
            }
            for record in records
        ]
        return self.produce_any(bootstrap, topic, shown, **settings)

    def produce_any(
        self, bootstrap: str, topic: str, records: list[dict[str, Any]], **settings: object
    ) -> list[dict[str, int]]:
        """Send records as `java/Json.java` reads them."""
        placed: list[dict[str, int]] = self.ask(
            "produce", topic=topic, records=records, settings=_dotted(bootstrap, settings)
        )
        return placed

    def admin(self, bootstrap: str, operation: str, **arguments: object) -> Any:
        settings = _dotted(bootstrap, {"default_api_timeout_ms": 30_000})
        return self.ask(f"admin.{operation}", settings=settings, **arguments)

    def consumer(self, name: str, bootstrap: str, **settings: object) -> JavaConsumer:
        """Open a consumer: Kafka's names with ``_`` for dots, and what it subscribes to.

        That is ``topics``, ``pattern`` (the client matches it) or ``subscription_pattern`` (the
        broker does).
        """
        return JavaConsumer(self, name, bootstrap, settings)

    def share_consumer(self, name: str, bootstrap: str, **settings: object) -> JavaShareConsumer:
        """Open a share consumer: Kafka's names with ``_`` for dots, and ``topics``."""
        return JavaShareConsumer(self, name, bootstrap, settings)

    def transactions(
        self, name: str, bootstrap: str, transactional_id: str, **settings: object
    ) -> JavaTransactions:
        """Open a producer with transactions, and begin with its id; Kafka's names as above."""
        return JavaTransactions(
            self, name, _dotted(bootstrap, {"transactional_id": transactional_id, **settings})
        )

    def close(self) -> None:
        assert self._process.stdin is not None
        self._process.stdin.close()
        self._process.wait()
        assert self._process.stdout is not None
        self._process.stdout.close()


class JavaConsumer:
    """A consumer in the JVM; `received` is everything that it was given."""

    def __init__(
        self, clients: JavaClients, name: str, bootstrap: str, settings: dict[str, object]
    ) -> None:
        self.name = name
        self.received: list[dict[str, Any]] = []
        self._clients = clients
        topics, pattern = settings.pop("topics", None), settings.pop("pattern", None)
        subscription_pattern = settings.pop("subscription_pattern", None)
        defaults = {"auto_offset_reset": "earliest", "enable_auto_commit": False}
        self.ask(
            "open",
            settings=_dotted(bootstrap, {**defaults, **settings}),
            topics=topics,
            pattern=pattern,
            subscription_pattern=subscription_pattern,
        )

    def ask(self, operation: str, **arguments: object) -> Any:
        """Have it do something; see `java/Consuming.java`."""
        return self._clients.ask(f"consumer.{operation}", name=self.name, **arguments)

    def poll(self, timeout_ms: int = 100) -> list[dict[str, Any]]:
        found: list[dict[str, Any]] = self.ask("poll", timeout_ms=timeout_ms)
        self.received += found
        return found

    def poll_until(self, count: int) -> list[dict[str, Any]]:
        """Poll until it was given so many records; returns all of them."""
        work_until(
            lambda: len(self.received) >= count,
            self.poll,
            what=f"{count} records",
            show=lambda: len(self.received),
        )
        return self.received

    @property
    def values(self) -> list[str | None]:
        return [record["value"] for record in self.received]

    @property
    def assignment(self) -> list[str]:
        """Its partitions, as `topic:0`."""
        assigned: list[str] = self.ask("assignment")
        return assigned

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.ask("close")


class JavaShareConsumer:
    """A share consumer in the JVM; `received` is everything that it was given."""

    def __init__(
        self, clients: JavaClients, name: str, bootstrap: str, settings: dict[str, object]
    ) -> None:
        self.name = name
        self.received: list[dict[str, Any]] = []
        self._clients = clients
        topics = settings.pop("topics")
        self.ask("open", settings=_dotted(bootstrap, settings), topics=topics)

    def ask(self, operation: str, **arguments: object) -> Any:
        """Have it do something; see `java/Sharing.java`."""
        return self._clients.ask(f"share.{operation}", name=self.name, **arguments)

    def poll(
        self, types: Mapping[str, str] | None = None, timeout_ms: int = 200
    ) -> list[dict[str, Any]]:
        """Poll; with ``types`` (by value) every record is acknowledged, else with ACCEPT."""
        extra = {} if types is None else {"types": types}
        found: list[dict[str, Any]] = self.ask("poll", timeout_ms=timeout_ms, **extra)
        self.received += found
        return found

    def poll_until(
        self, count: int, types: Mapping[str, str] | None = None
    ) -> list[dict[str, Any]]:
        """Poll until it was given so many records; returns all of them."""
        work_until(
            lambda: len(self.received) >= count,
            lambda: self.poll(types),
            what=f"{count} records",
            show=lambda: self.received,
        )
        return self.received

    @property
    def values(self) -> list[str]:
        return [record["value"] for record in self.received]

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.ask("close")


class JavaTransactions:
    """A transactional producer in the JVM."""

    def __init__(self, clients: JavaClients, name: str, settings: dict[str, str]) -> None:
        self.name = name
        self._clients = clients
        self.ask("open", settings=settings)
        self.ask("init")

    def ask(self, operation: str, **arguments: object) -> Any:
        """Have it do something; see `java/Transacting.java`."""
        return self._clients.ask(f"producer.{operation}", name=self.name, **arguments)

    def send(self, topic: str, *values: bytes, partition: int = 0) -> list[int]:
        """Send values and wait for their offsets."""
        records = [{"partition": partition, "value": _text(value)} for value in values]
        offsets: list[int] = self.ask("send", topic=topic, records=records)
        return offsets

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.ask("close")


def sent_of(record: dict[str, Any]) -> Outgoing:
    """A record that was received, as its producer would describe it."""
    return Outgoing(
        _bytes(record["value"]),
        _bytes(record["key"]),
        tuple((name, _bytes(value)) for name, value in record["headers"]),
        record["timestamp"],
    )


def _text(value: bytes | None) -> str | None:
    return None if value is None else value.decode("latin-1")


def _bytes(value: str | None) -> bytes | None:
    return None if value is None else value.encode("latin-1")


def _dotted(bootstrap: str, settings: Settings) -> dict[str, str]:
    shown = {
        name.replace("_", "."): str(value).lower() if isinstance(value, bool) else str(value)
        for name, value in settings.items()
    }
    return {"bootstrap.servers": bootstrap, **shown}
