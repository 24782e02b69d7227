"""SASL mechanisms against servers of our own, and the handshake of a connection."""

from __future__ import annotations

import re
from collections.abc import Callable

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from minikafka.protocol.errors import ErrorCode
from minikafka.protocol.messages import api_versions, sasl_authenticate, sasl_handshake
from minikafka.protocol.schema import Request, Response
from minikafka_client.errors import AuthenticationError, UnsupportedByBrokerError
from minikafka_client.options import ConnectionConfig, Mechanism
from minikafka_client.plans.handshake import shake_hands
from minikafka_client.sasl import ITERATIONS_MAX, Plain, ScramSha256, ScramSha512
from tests.client.security.scram_server import ScramServer
from tests.kit.examples import examples

TEXTS = st.text(st.characters(blacklist_characters="\0", codec="utf-8"), min_size=1, max_size=20)


def converse(mechanism: Mechanism, answer: Callable[[bytes], bytes]) -> list[bytes]:
    """Let a mechanism talk with a server; returns what it said."""
    conversation = mechanism.authenticate("host")
    said = [next(conversation)]
    try:
        while True:
            said.append(conversation.send(answer(said[-1])))
    except StopIteration:
        return said


# --- PLAIN ---


def test_plain_says_everything_in_one_message() -> None:
    assert converse(Plain("alice", "secret"), lambda _: b"") == [b"\0alice\0secret"]
    someone = Plain("alice", "secret", authorization_id="bob")
    assert converse(someone, lambda _: b"") == [b"bob\0alice\0secret"]


@pytest.mark.parametrize("mechanism", [Plain, ScramSha256])
@pytest.mark.parametrize("pair", [("", "p"), ("u", ""), ("u\0v", "p"), ("u", "p\0")])
def test_names_and_passwords_must_be_sayable(mechanism: type[Plain], pair: tuple[str, str]) -> None:
    with pytest.raises(ValueError, match="must not"):
        mechanism(*pair)


@pytest.mark.parametrize("mechanism", [Plain, ScramSha256, ScramSha512])
def test_no_password_is_ever_shown(mechanism: type[Plain]) -> None:
    shown = repr(mechanism("alice", "pa55word"))
    assert "alice" in shown
    assert "pa55word" not in shown


# --- SCRAM ---


def test_the_example_of_rfc_7677() -> None:
    nonce = "rOprNGfwEbeRWgbNEkqO"
    both = b"rOprNGfwEbeRWgbNEkqO%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0"
    answers = iter(
        [
            b"r=%b,s=W22ZaJ0SNY7soEsUEjb6gQ==,i=4096" % both,
            b"v=6rriTRBi23WpRR/wtup+mMhUZUn/dB5nLTJRsjl95G4=",
        ]
    )
    said = converse(ScramSha256("user", "pencil", new_nonce=lambda: nonce), lambda _: next(answers))
    assert said == [
        b"n,,n=user,r=rOprNGfwEbeRWgbNEkqO",
        b"c=biws,r=%b,p=dHzbZapWIk4jUhN+Ute9ytag9zjfMHgsqmmiz7AndVQ=" % both,
    ]


@given(TEXTS, TEXTS, st.binary(min_size=1), st.sampled_from(["sha256", "sha512"]))
@settings(max_examples=examples(25))
def test_both_sides_are_content(username: str, password: str, salt: bytes, name: str) -> None:
    server = ScramServer(username, password, name, salt)
    mechanism = ScramSha256 if name == "sha256" else ScramSha512
    assert len(converse(mechanism(username, password), server.answer)) == 2
    assert server.is_content


def test_every_connection_has_a_nonce_of_its_own() -> None:
    mechanism = ScramSha256("alice", "secret")
    assert len({next(mechanism.authenticate("host")) for _ in range(100)}) == 100


def test_a_wrong_password_is_refused() -> None:
    server = ScramServer("alice", "right")
    with pytest.raises(AuthenticationError, match="the broker refused 'alice': invalid-proof"):
        converse(ScramSha256("alice", "wrong"), server.answer)


def replacing(pattern: str, by: str) -> Callable[[str], str]:
    return lambda message: re.sub(pattern, by, message)


@pytest.mark.parametrize(
    ("twist", "text"),
    [
        (replacing("r=[^,]*", "r=another"), "does not continue ours"),
        (replacing(r"\+ours", ""), "does not continue ours"),
        (replacing("r=[^,]*,", ""), "does not continue ours"),
        (replacing("i=4096", "i=1"), "asks for '1' iterations"),
        (replacing("i=4096", f"i={ITERATIONS_MAX + 1}"), "iterations"),
        (replacing("i=4096", "i=many"), "asks for 'many' iterations"),
        (replacing(",i=4096", ""), "asks for 'no' iterations"),
        (replacing("s=[^,]*", "s=!!!"), "no salt"),
        (replacing("s=[^,]*", "s="), "no salt"),
        (replacing("^", "m=extension,"), "extension"),
        (replacing("^.*$", "e=unknown-user"), "refused: unknown-user"),
    ],
)
def test_a_server_that_breaks_the_rules_is_not_believed(
    twist: Callable[[str], str], text: str
) -> None:
    server = ScramServer("alice", "secret", twist_first=twist)
    with pytest.raises(AuthenticationError, match=text):
        converse(ScramSha256("alice", "secret"), server.answer)


@pytest.mark.parametrize(
    "twist",
    [
        replacing("^.*$", ""),
        replacing("^.*$", "v="),
        replacing("^.*$", "v=AAAA"),
        replacing("^.*$", "v=???"),
        lambda message: message[:-5] + ("AAAA=" if message[-5:] != "AAAA=" else "BBBB="),
    ],
)
def test_a_server_that_does_not_know_the_password_is_not_believed(
    twist: Callable[[str], str],
) -> None:
    server = ScramServer("alice", "secret", twist_final=twist)
    with pytest.raises(AuthenticationError, match="cannot prove that it knows"):
        converse(ScramSha256("alice", "secret"), server.answer)


# --- on a connection ---


HAS_SASL = api_versions.Response(
    error_code=0,
    api_keys=[
        api_versions.ApiVersion(api_key=17, min_version=0, max_version=1),
        api_versions.ApiVersion(api_key=36, min_version=0, max_version=2),
    ],
)


def greeted(mechanism: Mechanism, *answers: Response) -> list[tuple[Request, int]]:
    """Greet a broker that answers like this; returns what it was asked, in which version."""
    plan = shake_hands(("host", 1), mechanism)
    asked = [next(plan)]
    for answer in answers:
        try:
            asked.append(plan.send(answer))
        except StopIteration:
            return asked
    raise AssertionError("the greeting is not over")


def test_the_mechanism_speaks_after_the_handshake() -> None:
    asked = greeted(
        Plain("alice", "secret"),
        HAS_SASL,
        sasl_handshake.Response(error_code=0, mechanisms=["PLAIN"]),
        sasl_authenticate.Response(error_code=0, error_message=None, auth_bytes=b""),
    )
    assert asked[1:] == [
        (sasl_handshake.Request(mechanism="PLAIN"), 1),
        (sasl_authenticate.Request(auth_bytes=b"\0alice\0secret"), 2),
    ]


def test_a_mechanism_that_the_broker_lacks_is_named_with_those_that_it_has() -> None:
    refusal = sasl_handshake.Response(
        error_code=ErrorCode.UNSUPPORTED_SASL_MECHANISM, mechanisms=["SCRAM-SHA-512", "GSSAPI"]
    )
    with pytest.raises(AuthenticationError, match=r"PLAIN at host:1.*has SCRAM-SHA-512, GSSAPI"):
        greeted(Plain("alice", "secret"), HAS_SASL, refusal)
    nothing = sasl_handshake.Response(error_code=ErrorCode.ILLEGAL_SASL_STATE, mechanisms=[])
    with pytest.raises(AuthenticationError, match="the broker has none"):
        greeted(Plain("alice", "secret"), HAS_SASL, nothing)


def test_a_refusal_is_final_and_has_the_brokers_message() -> None:
    refusal = sasl_authenticate.Response(
        error_code=ErrorCode.SASL_AUTHENTICATION_FAILED,
        error_message="Authentication failed: Invalid username or password",
        auth_bytes=b"",
    )
    handshake = sasl_handshake.Response(error_code=0, mechanisms=["PLAIN"])
    with pytest.raises(AuthenticationError, match="Invalid username or password") as caught:
        greeted(Plain("alice", "wrong"), HAS_SASL, handshake, refusal)
    assert not caught.value.is_retriable
    assert "wrong" not in str(caught.value)


def test_a_broker_without_sasl_is_named() -> None:
    plain = api_versions.Response(error_code=0, api_keys=[])
    with pytest.raises(UnsupportedByBrokerError, match="SaslHandshake"):
        greeted(Plain("alice", "secret"), plain)


# --- options ---


@pytest.mark.parametrize(
    ("options", "text"),
    [
        ({"security_protocol": "TLS"}, "it is PLAINTEXT, SSL"),
        ({"security_protocol": "SASL_SSL"}, "with sasl=None"),
        ({"security_protocol": "PLAINTEXT", "sasl": Plain("a", "b")}, "with sasl=Plain"),
        ({"security_protocol": "SSL", "sasl": Plain("a", "b")}, "with sasl=Plain"),
    ],
)
def test_security_options_must_not_contradict_each_other(
    options: dict[str, object], text: str
) -> None:
    with pytest.raises(ValueError, match=text):
        ConnectionConfig(**options)  # type: ignore[arg-type]  # that is the point


def test_a_plain_listener_has_no_context() -> None:
    context = ConnectionConfig(security_protocol="SSL").ssl_context
    assert context is not None
    assert context.check_hostname
    with pytest.raises(ValueError, match="with an ssl_context"):
        ConnectionConfig(security_protocol="PLAINTEXT", ssl_context=context)
    assert ConnectionConfig(security_protocol="PLAINTEXT").ssl_context is None
