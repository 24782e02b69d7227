"""OAUTHBEARER on the server: the grammar of RFC 7628, and the rules for claims."""

from __future__ import annotations

import json
from base64 import urlsafe_b64encode
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from minikafka.security.mechanisms import Challenge, Check, Denied, Granted, Verdict
from minikafka.security.oauthbearer import (
    ClaimRules,
    InvalidTokenError,
    MalformedResponseError,
    OAuthBearerServer,
    check_claims,
    parse_initial_response,
    unsecured_claims,
)

NOW_MS = 1_700_000_000_000
NOW = NOW_MS // 1000
GOOD = {"sub": "alice", "iat": NOW - 10, "exp": NOW + 60}


def unsecured(claims: object, header: object = None) -> str:
    parts = [{"alg": "none"} if header is None else header, claims]
    encoded = [urlsafe_b64encode(json.dumps(one).encode()).decode().rstrip("=") for one in parts]
    return ".".join(encoded) + "."


def validate(token: str) -> Granted:
    rules = ClaimRules(required_scopes=("kafka",) if "needs" in token else ())
    return check_claims(unsecured_claims(token.removeprefix("needs")), rules, NOW_MS)


def verdict(server: OAuthBearerServer, message: bytes) -> Verdict:
    step = server.step(message)
    return step.run() if isinstance(step, Check) else step


def initial(token: str, header: str = "n,,") -> bytes:
    return f"{header}\x01auth=Bearer {token}\x01\x01".encode()


# --- messages ----------------------------------------------------------------------------------


def test_the_example_of_rfc_7628() -> None:
    message = (
        b"n,a=user@example.com,\x01host=server.example.com\x01port=143\x01"
        b"auth=Bearer vF9dft4qmTc2Nvb3RlckBhbHRhdmlzdGEuY29tCg==\x01\x01"
    )
    assert parse_initial_response(message) == (
        "vF9dft4qmTc2Nvb3RlckBhbHRhdmlzdGEuY29tCg==",
        "user@example.com",
        {"host": "server.example.com", "port": "143"},
    )


def test_an_authorization_id_is_unescaped() -> None:
    assert parse_initial_response(initial("t", "n,a=a=2Cb=3D,")).authorization_id == "a,b="


@pytest.mark.parametrize(
    "message",
    [
        b"",
        b"\x01",
        b"n,,\x01\x01",
        b"n,,\x01auth=Bearer t\x01",
        b"n,,\x01auth=Bearer t\x01\x01\x01",
        b"p,,\x01auth=Bearer t\x01\x01",
        b"n,,x\x01auth=Bearer t\x01\x01",
        b"n,x,\x01auth=Bearer t\x01\x01",
        b"n,a=,\x01auth=Bearer t\x01\x01",
        b"n,a==,\x01auth=Bearer t\x01\x01",
        b"n,,\x01auth=Basic t\x01\x01",
        b"n,,\x01auth=Bearer\x01\x01",
        b"n,,\x01auth=Bearer t t\x01\x01",
        b"n,,\x01auth=Bearer t\x01auth=Bearer t\x01\x01",
        b"n,,\x01auth=Bearer t\x01k1=v\x01\x01",
        b"n,,\x01auth=Bearer t\x01key=\x01\x01",
        b"n,,\x01auth=Bearer \xff\x01\x01",
    ],
)
def test_a_malformed_message_is_denied(message: bytes) -> None:
    assert isinstance(OAuthBearerServer(validate).step(message), Denied)


@given(message=st.binary(max_size=60) | st.binary(max_size=40).map(lambda b: b"n,," + b))
def test_any_bytes_are_read_or_refused(message: bytes) -> None:
    try:
        found = parse_initial_response(message)
    except MalformedResponseError:
        return
    assert found.token


# --- the exchange --------------------------------------------------------------------------------


def test_a_valid_token_is_enough() -> None:
    granted = verdict(OAuthBearerServer(validate), initial(unsecured(GOOD)))
    assert granted == Granted("alice", expires_at_ms=(NOW + 60) * 1000)


def test_the_authorization_id_must_be_the_tokens_subject() -> None:
    token = unsecured(GOOD)
    assert isinstance(verdict(OAuthBearerServer(validate), initial(token, "n,a=alice,")), Granted)
    refused = verdict(OAuthBearerServer(validate), initial(token, "n,a=admin,"))
    assert isinstance(refused, Denied)
    assert "authorization id" in (refused.message or "")


def test_an_invalid_token_is_answered_with_an_error_that_the_client_acknowledges() -> None:
    server = OAuthBearerServer(validate)
    error = '{"status":"invalid_token"}'
    assert verdict(server, initial("invalid")) == Challenge(error.encode())
    assert verdict(server, b"\x01") == Denied(error, error)


def test_a_client_may_try_another_token_after_the_error() -> None:
    server = OAuthBearerServer(validate)
    verdict(server, initial("invalid"))
    assert isinstance(verdict(server, initial(unsecured(GOOD))), Granted)


def test_an_acknowledgement_of_nothing_is_denied() -> None:
    assert isinstance(OAuthBearerServer(validate).step(b"\x01"), Denied)


def test_a_missing_scope_is_named() -> None:
    answer = verdict(OAuthBearerServer(validate), initial("needs" + unsecured(GOOD)))
    assert answer == Challenge(b'{"status":"insufficient_scope", "scope":"kafka"}')


# --- claims ------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("changes", "reason"),
    [
        ({"sub": None}, "'sub'"),
        ({"sub": " "}, "'sub'"),
        ({"sub": 7}, "'sub'"),
        ({"exp": None}, "'exp' is missing"),
        ({"exp": "soon"}, "'exp' is no time"),
        ({"exp": True}, "'exp' is no time"),
        ({"exp": 2**60}, "'exp' is no time"),
        ({"exp": NOW}, "has expired"),
        ({"iat": NOW + 1}, "not valid yet"),
        ({"nbf": NOW + 1}, "not valid yet"),
        ({"iat": None}, "'iat' is missing"),
        ({"scope": None}, "'a' is missing"),
        ({"scope": "b c"}, "'a' is missing"),
        ({"scope": ["b", 7]}, "'a' is missing"),
    ],
)
def test_a_token_whose_claims_do_not_hold_is_refused(changes: dict[str, Any], reason: str) -> None:
    rules = ClaimRules(required_scopes=("a",), needs_issue_time=True)
    with pytest.raises(InvalidTokenError, match=reason):
        check_claims({**GOOD, "scope": "a", **changes}, rules, NOW_MS)


@pytest.mark.parametrize("claims", [{}, {"aud": "b"}, {"aud": ["b", 7]}, {"aud": 7}])
def test_a_token_for_others_is_refused(claims: dict[str, Any]) -> None:
    rules = ClaimRules(audiences=("a", "x"))
    assert check_claims({**GOOD, "aud": "a"}, rules, NOW_MS).user == "alice"
    assert check_claims({**GOOD, "aud": ["b", "x"]}, rules, NOW_MS).user == "alice"
    with pytest.raises(InvalidTokenError, match="another audience"):
        check_claims({**GOOD, **claims}, rules, NOW_MS)


def test_a_token_from_others_is_refused() -> None:
    rules = ClaimRules(issuer="https://us")
    assert check_claims({**GOOD, "iss": "https://us"}, rules, NOW_MS).user == "alice"
    for issuer in (None, "https://us/"):
        with pytest.raises(InvalidTokenError, match="another issuer"):
            check_claims({**GOOD, "iss": issuer}, rules, NOW_MS)


def test_a_token_that_expires_before_it_was_issued_is_refused() -> None:
    rules = ClaimRules(clock_skew_ms=60_000)
    with pytest.raises(InvalidTokenError, match="before it was issued"):
        check_claims({"sub": "a", "iat": NOW, "exp": NOW - 1}, rules, NOW_MS)


def test_clocks_may_differ_by_the_skew() -> None:
    rules = ClaimRules(clock_skew_ms=5_000)
    late = {"sub": "a", "exp": NOW - 4}
    assert check_claims(late, rules, NOW_MS).user == "a"
    with pytest.raises(InvalidTokenError, match="expired"):
        check_claims({**late, "exp": NOW - 5}, rules, NOW_MS)


@pytest.mark.parametrize("scope", ["a b", ["b", "a"], ["a ", "b"]])
def test_names_of_claims_can_be_chosen(scope: object) -> None:
    rules = ClaimRules("user", "scp", ("a", "b"))
    claims = {"user": " bob ", "scp": scope, "exp": NOW + 1}
    assert check_claims(claims, rules, NOW_MS).user == "bob"


@pytest.mark.parametrize(
    "token",
    [
        "",
        "a.b",
        "a.b.c",
        "..",
        "e30.e30.",
        unsecured(GOOD)[:-1],
        unsecured(GOOD) + "x",
        unsecured(GOOD, {"alg": "HS256"}),
        unsecured(GOOD, ["none"]),
        unsecured([1]),
        "A" * 70_000 + "..",
    ],
)
def test_only_a_token_that_says_that_it_is_not_signed_passes_as_that(token: str) -> None:
    with pytest.raises(InvalidTokenError):
        unsecured_claims(token)
