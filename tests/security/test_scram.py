"""SCRAM on the server: the RFC's example, our client against it, and those without a password."""

from __future__ import annotations

from base64 import b64decode, b64encode
from collections.abc import Callable

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from minikafka.security.mechanisms import Challenge, Denied, Granted, Step
from minikafka.security.scram import (
    MalformedScramError,
    ScramCredential,
    ScramMechanism,
    ScramServer,
    credential_of_password,
    decoy_credential,
    parse_client_final,
    parse_client_first,
    password_matches,
)
from minikafka_client.sasl import ScramSha256, ScramSha512

SHA_256, SHA_512 = ScramMechanism.SCRAM_SHA_256, ScramMechanism.SCRAM_SHA_512
SALT = b64decode("W22ZaJ0SNY7soEsUEjb6gQ==")
NAMES = st.text(st.characters(exclude_characters="\0", codec="utf-8"), min_size=1, max_size=20)


def server(
    password: str = "pencil", user: str = "user", mechanism: ScramMechanism = SHA_256
) -> ScramServer:
    credential = credential_of_password(mechanism, password, SALT)
    decoy = decoy_credential(mechanism, user, b"key")

    def find(name: str) -> ScramCredential:
        return credential if name == user else decoy

    return ScramServer(mechanism, find, lambda: "%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0")


def challenge(step: Step) -> str:
    assert isinstance(step, Challenge), step
    return step.token.decode()


def test_the_example_of_rfc_7677() -> None:
    under_test = server()
    said = challenge(under_test.step(b"n,,n=user,r=rOprNGfwEbeRWgbNEkqO"))
    nonce = "rOprNGfwEbeRWgbNEkqO%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0"
    assert said == f"r={nonce},s=W22ZaJ0SNY7soEsUEjb6gQ==,i=4096"
    proof = "dHzbZapWIk4jUhN+Ute9ytag9zjfMHgsqmmiz7AndVQ="
    assert under_test.step(f"c=biws,r={nonce},p={proof}".encode()) == Granted(
        "user", b"v=6rriTRBi23WpRR/wtup+mMhUZUn/dB5nLTJRsjl95G4="
    )


def talk(client: ScramSha256 | ScramSha512, under_test: ScramServer) -> Step:
    """Both to the end, or to the server's refusal."""
    conversation = client.authenticate("broker")
    step = under_test.step(next(conversation))
    while isinstance(step, Challenge):
        step = under_test.step(conversation.send(step.token))
    if isinstance(step, Granted):
        with pytest.raises(StopIteration):
            conversation.send(step.token)
    return step


@given(user=NAMES, password=NAMES)
@example(user="a=,=2C,=3D b", password="x")
def test_our_client_and_server_agree_on_every_name_and_password(user: str, password: str) -> None:
    step = talk(ScramSha256(user, password), server(password, user))
    assert isinstance(step, Granted)
    assert step.user == user


def test_the_longer_hash_works_the_same() -> None:
    under_test = server("secret", "alice", SHA_512)
    assert isinstance(talk(ScramSha512("alice", "secret"), under_test), Granted)


def test_a_wrong_password_and_an_unknown_user_look_the_same() -> None:
    firsts = []
    for user, password in (("user", "wrong"), ("nobody", "pencil")):
        under_test = server()
        conversation = ScramSha256(user, password, new_nonce=lambda: "n").authenticate("b")
        said = under_test.step(next(conversation))
        firsts.append([part[:2] for part in challenge(said).split(",")])
        refused = under_test.step(conversation.send(challenge(said).encode()))
        assert refused == Denied("no such user, or a wrong password")
    assert firsts[0] == firsts[1]


def test_a_decoy_stays_the_same_and_belongs_to_one_user() -> None:
    of_bob = decoy_credential(SHA_256, "bob", b"key")
    assert of_bob == decoy_credential(SHA_256, "bob", b"key")
    assert of_bob.salt != decoy_credential(SHA_256, "carl", b"key").salt
    assert of_bob.salt != decoy_credential(SHA_256, "bob", b"another").salt


def test_a_password_that_came_in_full_is_checked_against_its_credential() -> None:
    credential = credential_of_password(SHA_512, "secret", SALT)
    assert password_matches(SHA_512, credential, "secret")
    assert not password_matches(SHA_512, credential, "Secret")
    assert "salt" not in repr(credential)


def test_another_authorization_id_is_refused_and_the_own_one_is_not() -> None:
    assert isinstance(server().step(b"n,a=user,n=user,r=x"), Challenge)
    refused = server().step(b"n,a=admin,n=user,r=x")
    assert isinstance(refused, Denied)
    assert refused.message is not None


def test_delegation_tokens_are_refused() -> None:
    refused = server().step(b"n,,n=user,r=x,tokenauth=true")
    assert refused == Denied("delegation tokens are not supported")


def test_a_client_that_could_bind_channels_has_to_repeat_that() -> None:
    under_test = server()
    nonce = challenge(under_test.step(b"y,,n=user,r=x")).split(",")[0]
    final = f"c={b64encode(b'n,,').decode()},{nonce},p=AAAA".encode()
    assert under_test.step(final) == Denied("the channel binding is not that of the first message")


@pytest.mark.parametrize(
    "first",
    [
        b"",
        b"n",
        b"p=tls-unique,,n=user,r=x",
        b"n,user,n=user,r=x",
        b"n,,m=ext,n=user,r=x",
        b"n,,user,r=x",
        b"n,,n=,r=x",
        b"n,,n=us=er,r=x",
        b"n,a=,n=user,r=x",
        b"n,,n=user,r=",
        b"n,,n=user,r=a b",
        b"n,,n=user",
        b"n,,n=user,r=x,ext",
        b"n,,n=us\0er,r=x",
        b"n,,n=us\xffer,r=x",
    ],
)
def test_a_malformed_first_message_is_denied(first: bytes) -> None:
    assert isinstance(server().step(first), Denied)


Change = Callable[[str, str], str]
FINALS: list[Change] = [
    lambda nonce, proof: f"c=biws,{nonce}",
    lambda nonce, proof: f"c=biws,{nonce},p=",
    lambda nonce, proof: f"c=biws,{nonce},p=AAAA",
    lambda nonce, proof: f"c=biws,{nonce},p={proof}=",
    lambda nonce, proof: f"c=biws,{nonce}x,p={proof}",
    lambda nonce, proof: f"c=biws,r=x,p={proof}",
    lambda nonce, proof: f"{nonce},c=biws,p={proof}",
    lambda nonce, proof: f"c=eSws,{nonce},p={proof}",
    lambda nonce, proof: f"c=biws,{nonce},ext,p={proof}",
    lambda nonce, proof: f"c=biws,{nonce},x=1,p={proof}",
    lambda nonce, proof: proof,
    lambda nonce, proof: "\0",
]


@pytest.mark.parametrize("change", FINALS)
def test_whatever_differs_from_the_right_final_message_is_denied(change: Change) -> None:
    under_test = server()
    conversation = ScramSha256("user", "pencil").authenticate("b")
    said = under_test.step(next(conversation))
    right = conversation.send(challenge(said).encode()).decode()
    binding_and_nonce, _, proof = right.rpartition(",p=")
    assert isinstance(
        under_test.step(change(binding_and_nonce.removeprefix("c=biws,"), proof).encode()), Denied
    )


def test_a_server_that_denied_starts_over() -> None:
    under_test = server()
    under_test.step(b"n,,n=user,r=x")
    assert isinstance(under_test.step(b"?"), Denied)
    assert isinstance(talk(ScramSha256("user", "pencil"), under_test), Granted)


@given(message=st.binary(max_size=100) | NAMES.map(lambda text: f"n,,n={text},r=x".encode()))
@example(b"n,a==2C,n==3D,r=x,a=b")
def test_parsers_read_or_refuse_any_bytes(message: bytes) -> None:
    for parse in (parse_client_first, parse_client_final):
        try:
            parsed = parse(message)
        except MalformedScramError:
            continue
        assert parsed.nonce is not None


def test_mechanisms_have_kafkas_names_and_numbers() -> None:
    assert ScramMechanism.named("SCRAM-SHA-512") is SHA_512
    assert ScramMechanism.named("SCRAM-SHA-1") is None
    assert (SHA_256.value, SHA_256.title, SHA_256.size_bytes) == (1, "SCRAM-SHA-256", 32)
    assert (SHA_512.value, SHA_512.size_bytes) == (2, 64)
