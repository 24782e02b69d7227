"""PLAIN on the server."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from minikafka.security.mechanisms import Check, Denied, Granted, Verdict
from minikafka.security.plain import PlainServer
from minikafka.security.scram import (
    ScramCredential,
    ScramMechanism,
    credential_of_password,
    decoy_credential,
)

USERS = {"alice": "alice secret", "åsa": "lösenord"}
SHA_256 = ScramMechanism.SCRAM_SHA_256


def find(user: str) -> tuple[ScramMechanism, ScramCredential]:
    if user == "bob":
        return SHA_256, credential_of_password(SHA_256, "bob secret", b"salt")
    return SHA_256, decoy_credential(SHA_256, user, b"key")


def verdict(token: bytes) -> Verdict:
    step = PlainServer(USERS, find).step(token)
    return step.run() if isinstance(step, Check) else step


@pytest.mark.parametrize(
    ("token", "user"),
    [
        (b"\0alice\0alice secret", "alice"),
        (b"alice\0alice\0alice secret", "alice"),
        ("\0åsa\0lösenord".encode(), "åsa"),
        (b"\0bob\0bob secret", "bob"),
    ],
)
def test_the_right_password_is_enough(token: bytes, user: str) -> None:
    assert verdict(token) == Granted(user)


@pytest.mark.parametrize(
    ("token", "message"),
    [
        (b"\0alice\0wrong", "Invalid username or password"),
        (b"\0nobody\0alice secret", "Invalid username or password"),
        (b"\0bob\0alice secret", "Invalid username or password"),
        (b"admin\0alice\0alice secret", "different from username"),
        (b"admin\0bob\0bob secret", "different from username"),
        (b"admin\0alice\0wrong", "Invalid username or password"),
        (b"\0\0alice secret", "username not specified"),
        (b"\0alice\0", "password not specified"),
        (b"alice\0alice secret", "expected 3 tokens, got 2"),
        (b"\0alice\0alice secret\0", "expected 3 tokens, got 4"),
        (b"", "expected 3 tokens, got 1"),
    ],
)
def test_everything_else_is_denied_in_kafkas_words(token: bytes, message: str) -> None:
    refused = verdict(token)
    assert isinstance(refused, Denied)
    assert message in (refused.message or "")
    assert "secret" not in f"{refused}"


def test_a_user_that_is_in_the_settings_has_no_second_password() -> None:
    both = PlainServer({"bob": "other"}, find)
    assert isinstance(both.step(b"\0bob\0bob secret"), Denied)


def test_without_other_users_a_name_that_is_not_in_the_settings_is_denied() -> None:
    assert isinstance(PlainServer(USERS).step(b"\0bob\0\x01"), Denied)


@given(token=st.binary(max_size=60))
def test_no_bytes_but_a_password_let_anybody_in(token: bytes) -> None:
    step = PlainServer(USERS).step(token)
    assert isinstance(step, Denied) or token.rpartition(b"\0")[2].decode() in USERS.values()
