"""Asks Apache Kafka the table of rights, and stores its answers: ``make acl-table``.

Clients authenticate by SASL/PLAIN, ANONYMOUS ones come in by a listener without security. The
brokers' own requests need a principal as well, so the controller's listener has SASL, too.
"""

from __future__ import annotations

import json
import sys
import tempfile
from collections.abc import Generator, Mapping
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any, Final

from minikafka.protocol.api import response_class
from minikafka.protocol.messages import sasl_authenticate, sasl_handshake
from minikafka.testing.wire import WireClosedError
from tests.broker.handlers.access.cases import CASES, PRINCIPALS, Case
from tests.broker.handlers.access.outcome import outcome_of
from tests.broker.handlers.access.scene import IDS, STEPS, SUPER_USER, TOPIC
from tests.broker.handlers.access.test_rights_table import GOLDEN
from tests.kit.waiting import look_until
from tests.kit.wire import Wire
from tests.peers.apache_kafka import OwnApacheKafka

_LISTENER: Final = "SASL"
_LOGIN: Final = "org.apache.kafka.common.security.plain.PlainLoginModule"
_ANSWER_S: Final = 20.0


def _settings() -> dict[str, str]:
    users = [SUPER_USER, *(who for who in PRINCIPALS if who != "ANONYMOUS")]
    known = " ".join(f'user_{who}="{who}"' for who in users)
    login = f'{_LOGIN} required username="{SUPER_USER}" password="{SUPER_USER}" {known};'
    return {
        "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
        "super.users": f"User:{SUPER_USER}",
        "inter.broker.listener.name": _LISTENER,
        "sasl.enabled.mechanisms": "PLAIN",
        "sasl.mechanism.inter.broker.protocol": "PLAIN",
        "sasl.mechanism.controller.protocol": "PLAIN",
        "listener.name.sasl.plain.sasl.jaas.config": login,
        "listener.name.controller.plain.sasl.jaas.config": login,
        "offsets.topic.num.partitions": "1",
        "transaction.state.log.num.partitions": "1",
    }


@contextmanager
def _connected(kafka: OwnApacheKafka, who: str) -> Generator[Wire]:
    if who == "ANONYMOUS":
        with Wire(kafka.bootstrap, timeout_s=_ANSWER_S) as wire:
            yield wire
        return
    with Wire(kafka.addresses[_LISTENER], timeout_s=_ANSWER_S) as wire:
        wire.ask(sasl_handshake.Request(mechanism="PLAIN"), 1, sasl_handshake.Response)
        token = f"\0{who}\0{who}".encode()
        answer = wire.ask(
            sasl_authenticate.Request(auth_bytes=token), 2, sasl_authenticate.Response
        )
        assert answer.error_code == 0, answer
        yield wire


def _ask(wire: Wire, case: Case, ids: Mapping[str, bytes]) -> Any:
    return wire.ask(case.request(ids), case.version, response_class(case.api))


def _has_error(struct: Any) -> bool:
    for field in struct.FIELDS:
        value = getattr(struct, field.name, None)
        if field.name.endswith("error_code") and value:
            return True
        is_nested = field.kind == "array" and field.item is not None and field.item.struct
        if is_nested and any(map(_has_error, value or ())):
            return True
    return False


def _is_done(wire: Wire, step: Case, ids: Mapping[str, bytes]) -> bool:
    return not _has_error(_ask(wire, step, ids))


def _set_up(kafka: OwnApacheKafka) -> dict[str, bytes]:
    with _connected(kafka, SUPER_USER) as root:
        _ask(root, TOPIC, {})
        ids = {one.name: one.topic_id for one in _ask(root, IDS, {}).topics}
        for step in STEPS:
            look_until(partial(_is_done, root, step, ids), step.name)
    return ids


def main() -> None:
    """Write the table."""
    table: dict[str, dict[str, list[str]]] = {}
    with tempfile.TemporaryDirectory() as folder:
        kafka = OwnApacheKafka(
            Path(folder) / "kafka",
            _settings(),
            listeners={_LISTENER: "SASL_PLAINTEXT"},
            controller_protocol="SASL_PLAINTEXT",
        )
        with kafka:
            ids = _set_up(kafka)
            for case in CASES:
                row = table[case.name] = {}
                for who in PRINCIPALS:
                    with _connected(kafka, who) as wire:
                        try:
                            row[who] = outcome_of(_ask(wire, case, ids), ids)
                        except WireClosedError:
                            row[who] = ["closed"]
                        except TimeoutError:
                            raise RuntimeError(f"no answer to {case.name} of {who}") from None
    GOLDEN.write_text(json.dumps(table, indent=1) + "\n")
    sys.stdout.write(f"{len(table)} rows for {len(PRINCIPALS)} clients: {GOLDEN}\n")


if __name__ == "__main__":
    main()
