"""Proofs that two nodes share a secret hold for one connection between these two."""

from __future__ import annotations

import pytest

from minikafka.security.node_proof import Meeting, is_same

SECRET = "correct horse battery staple"
MEETING = Meeting(1, 2, b"a" * 32, b"b" * 32)


def test_both_sides_compute_the_same() -> None:
    again = Meeting(*MEETING)
    assert is_same(MEETING.asking_proof(SECRET), again.asking_proof(SECRET))
    assert is_same(MEETING.answering_proof(SECRET), again.answering_proof(SECRET))


@pytest.mark.parametrize(
    "other",
    [
        MEETING._replace(asking=3),
        MEETING._replace(answering=3),
        MEETING._replace(asking_nonce=b"c" * 32),
        MEETING._replace(answering_nonce=b"c" * 32),
        Meeting(2, 1, b"b" * 32, b"a" * 32),
        Meeting(12, 2, b"a" * 31, b"b" * 32),
    ],
)
def test_a_proof_is_worth_nothing_elsewhere(other: Meeting) -> None:
    assert not is_same(MEETING.asking_proof(SECRET), other.asking_proof(SECRET))
    assert not is_same(MEETING.answering_proof(SECRET), other.answering_proof(SECRET))


def test_a_proof_cannot_be_sent_back() -> None:
    assert not is_same(MEETING.asking_proof(SECRET), MEETING.answering_proof(SECRET))


def test_another_secret_gives_another_proof() -> None:
    assert not is_same(MEETING.asking_proof(SECRET), MEETING.asking_proof(SECRET + "!"))
