"""Every error code in every answer: the client does what the table says."""

from __future__ import annotations

from collections import Counter

import pytest

from minikafka.protocol.errors import ErrorCode
from minikafka_client.errors import broker_error
from tests.client.reactions.plan_probes import PROBES
from tests.client.reactions.reading import rows
from tests.client.reactions.table import TABLE

# What brokers answer in earnest, and the application is told.
TOLD = """
    OFFSET_OUT_OF_RANGE CORRUPT_MESSAGE MESSAGE_TOO_LARGE OFFSET_METADATA_TOO_LARGE
    INVALID_TOPIC_EXCEPTION RECORD_LIST_TOO_LARGE INVALID_REQUIRED_ACKS ILLEGAL_GENERATION
    INCONSISTENT_GROUP_PROTOCOL INVALID_GROUP_ID UNKNOWN_MEMBER_ID INVALID_SESSION_TIMEOUT
    INVALID_COMMIT_OFFSET_SIZE TOPIC_AUTHORIZATION_FAILED GROUP_AUTHORIZATION_FAILED
    CLUSTER_AUTHORIZATION_FAILED INVALID_TIMESTAMP UNSUPPORTED_SASL_MECHANISM ILLEGAL_SASL_STATE
    UNSUPPORTED_VERSION INVALID_REQUEST UNSUPPORTED_FOR_MESSAGE_FORMAT POLICY_VIOLATION
    OUT_OF_ORDER_SEQUENCE_NUMBER INVALID_PRODUCER_EPOCH SASL_AUTHENTICATION_FAILED
    TRANSACTIONAL_ID_AUTHORIZATION_FAILED UNSUPPORTED_COMPRESSION_TYPE GROUP_MAX_SIZE_REACHED
    FENCED_INSTANCE_ID INVALID_RECORD PRODUCER_FENCED REBALANCE_IN_PROGRESS UNKNOWN_SERVER_ERROR
"""


ROWS = rows(TABLE)


def test_every_code_is_in_the_table_for_every_answer() -> None:
    assert {answer for _, answer, _ in ROWS} == PROBES.keys()
    times = Counter(code for code, _, _ in ROWS)
    assert times == dict.fromkeys(ErrorCode, len(PROBES))


@pytest.mark.parametrize("answer", PROBES)
def test_the_client_does_what_the_table_says(answer: str) -> None:
    probe = PROBES[answer]
    wanted = {code.name: reaction for code, given, reaction in ROWS if given == answer}
    assert {code.name: probe(code) for code in ErrorCode} == wanted


@pytest.mark.parametrize("answer", PROBES)
def test_a_code_that_is_newer_than_the_client_is_an_unknown_error(answer: str) -> None:
    newer = max(ErrorCode) + 100
    assert str(broker_error(newer)).startswith("UNKNOWN_SERVER_ERROR (-1)")
    wanted = [
        r for code, given, r in ROWS if (code.name, given) == ("UNKNOWN_SERVER_ERROR", answer)
    ]
    assert wanted[0] in {"tell", "stop", "refresh"}


@pytest.mark.parametrize("name", TOLD.split())
def test_what_the_application_is_told_says_what_to_do(name: str) -> None:
    text = str(broker_error(ErrorCode[name], "what was asked"))
    start, _, advice = text.partition("; ")
    assert start == f"what was asked: {name} ({ErrorCode[name].value})"
    assert advice
