"""The SASL session of a connection: nobody becomes somebody without a mechanism's consent.

`World` sends everything in every order and knows what may happen; the stories below it are the
cases that a reader looks for.
"""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from minikafka.protocol.errors import ErrorCode
from minikafka.security.mechanisms import Challenge, Check, Denied, Granted, Step
from minikafka.security.principal import Principal
from minikafka.security.sasl import Mechanism, Now, SaslError, SaslSession, SaslState, TokenAnswer

LIFETIME_MS = 10_000


class Scripted:
    """A mechanism whose verdict is the token: its first letter says which."""

    def step(self, token: bytes) -> Step:
        match token[:1]:
            case b"c":
                return Challenge(b"more")
            case b"g":
                return Granted(token[1:].decode(), b"done")
            case b"e":
                return Granted("alice", expires_at_ms=int(token[1:]))
            case b"w":
                rest = token[1:]
                return Check(lambda: Granted(rest.decode()) if rest else Denied("slowly"))
            case _:
                return Denied("because")


MECHANISMS = {"A": Mechanism(Scripted), "B": Mechanism(Scripted, LIFETIME_MS)}


def session(mechanism: str | None = None) -> SaslSession:
    made = SaslSession(MECHANISMS)
    if mechanism is not None:
        made.handshake(mechanism)
    return made


def now(seconds: float = 0.0) -> Now:
    return Now(seconds, int(seconds * 1000))


def in_as(user: str, mechanism: str) -> SaslSession:
    made = session(mechanism)
    made.token(f"g{user}".encode(), now())
    return made


# --- every order ---------------------------------------------------------------------------------


class World(RuleBasedStateMachine):
    """Any client, and a model of who it is."""

    def __init__(self) -> None:
        super().__init__()
        self.session = SaslSession(MECHANISMS)
        self.time = 0.0
        self.proved: str | None = None
        self.was: str | None = None
        self.open_check: Check | None = None
        self.failed = False

    def attempt(self, call: Any, *arguments: Any) -> Any:
        try:
            return call(*arguments)
        except SaslError:
            self.failed, self.proved = True, None
            assert self.session.state is SaslState.FAILED
            return None

    @rule(understood=st.booleans())
    def versions(self, understood: bool) -> None:
        state = self.session.state
        self.attempt(lambda: self.session.asked_versions(understood=understood))
        assert self.failed or state is SaslState.NEW

    @rule(mechanism=st.sampled_from(["A", "B", "C", ""]))
    def handshake(self, mechanism: str) -> None:
        before, had = self.session.state, self.session.mechanism
        self.attempt(self.session.handshake, mechanism)
        if self.failed:
            return
        assert before in (SaslState.NEW, SaslState.ASKED, SaslState.AUTHENTICATED)
        assert mechanism in MECHANISMS
        if before is SaslState.AUTHENTICATED:
            assert mechanism == had
        self.proved = None

    @rule(
        token=st.sampled_from([b"c", b"galice", b"gbob", b"d", b"", b"walice", b"wbob", b"w"])
        | st.integers(0, 30_000).map(lambda at: b"e%d" % at)
    )
    def token(self, token: bytes) -> None:
        before = self.session.state
        answer = self.attempt(self.session.token, token, now(self.time))
        if isinstance(answer, Check):
            self.open_check = answer
        elif answer is not None:
            self.answered(answer, before)

    @precondition(lambda self: self.open_check is not None)
    @rule()
    def check_ends(self) -> None:
        assert self.open_check is not None
        verdict, self.open_check = self.open_check.run(), None
        before = self.session.state
        answer = self.attempt(self.session.checked, verdict, now(self.time))
        if answer is not None:
            self.answered(answer, before)

    def answered(self, answer: TokenAnswer, before: SaslState) -> None:
        assert before in (SaslState.CHALLENGED, SaslState.CHECKING)
        if self.session.is_authenticated:
            assert self.session.principal is not None
            self.proved = self.session.principal.name
            assert self.was in (None, self.proved)
            self.was = self.proved
        else:
            assert answer == TokenAnswer(b"more")

    @rule(seconds=st.floats(0, 20))
    def time_passes(self, seconds: float) -> None:
        self.time += seconds

    @invariant()
    def nobody_is_somebody_without_proof(self) -> None:
        assert self.session.is_authenticated == (self.proved is not None)
        if self.failed:
            assert not self.session.may_authenticate_again


World.TestCase.settings = settings(stateful_step_count=20)
TestWorld = World.TestCase


# --- stories -------------------------------------------------------------------------------------


def test_a_mechanism_may_need_several_tokens() -> None:
    made = session()
    made.asked_versions(understood=False)
    made.asked_versions(understood=True)
    made.handshake("A")
    assert made.token(b"c", now()) == TokenAnswer(b"more")
    assert made.principal is None
    assert made.token(b"galice", now()) == TokenAnswer(b"done")
    assert made.principal == Principal("User", "alice")


def test_an_unknown_mechanism_ends_the_session() -> None:
    with pytest.raises(SaslError, match="Unsupported SASL mechanism GSSAPI") as caught:
        session().handshake("GSSAPI")
    assert caught.value.error_code is ErrorCode.UNSUPPORTED_SASL_MECHANISM


def test_the_reason_of_a_refusal_is_for_the_log_only() -> None:
    with pytest.raises(SaslError, match="because") as caught:
        session("A").token(b"d", now())
    assert caught.value.error_code is ErrorCode.SASL_AUTHENTICATION_FAILED
    assert caught.value.message == (
        "Authentication failed during authentication due to invalid credentials with SASL "
        "mechanism A"
    )


@pytest.mark.parametrize("again", ["asked_versions", "handshake", "token"])
def test_what_is_out_of_order_ends_the_session(again: str) -> None:
    made = in_as("alice", "A")
    calls: dict[str, Any] = {
        "asked_versions": lambda: made.asked_versions(understood=True),
        "handshake": lambda: made.handshake("A"),
        "token": lambda: made.token(b"galice", now()),
    }
    with pytest.raises(SaslError) as caught:
        calls[again]()
    assert caught.value.error_code is ErrorCode.ILLEGAL_SASL_STATE
    assert made.state is SaslState.FAILED


def test_a_session_without_a_lifetime_never_ends() -> None:
    made = in_as("alice", "A")
    assert not made.has_ended(1e9)
    assert not made.may_authenticate_again


@pytest.mark.parametrize(
    ("mechanism", "expires_at_ms", "lifetime_ms"),
    [("A", 25_000, 20_000), ("B", 25_000, 10_000), ("B", 8_000, 3_000), ("A", 1_000, 0)],
)
def test_a_session_lasts_as_long_as_the_settings_and_the_credentials_allow(
    mechanism: str, expires_at_ms: int, lifetime_ms: int
) -> None:
    made = session(mechanism)
    answer = made.token(b"e%d" % expires_at_ms, now(5.0))
    assert answer == TokenAnswer(b"", lifetime_ms)
    ends_at = 5.0 + lifetime_ms / 1000
    assert not made.has_ended(ends_at)
    assert made.has_ended(ends_at + 0.001)


def test_a_session_is_renewed_by_the_same_user() -> None:
    made = in_as("alice", "B")
    assert made.may_authenticate_again
    made.handshake("B")
    assert not made.is_authenticated
    assert made.token(b"galice", now(11.0)) == TokenAnswer(b"done", LIFETIME_MS)
    assert not made.has_ended(20.0)


def test_another_user_or_mechanism_cannot_renew_a_session() -> None:
    made = in_as("alice", "B")
    made.handshake("B")
    with pytest.raises(SaslError, match=r"from User.alice: User.bob"):
        made.token(b"gbob", now())
    made = in_as("alice", "B")
    with pytest.raises(SaslError, match="not supported for re-authentication"):
        made.handshake("A")
    made = in_as("alice", "B")
    made.handshake("B")
    with pytest.raises(SaslError) as caught:
        made.token(b"d", now())
    assert "during re-authentication" in caught.value.message
