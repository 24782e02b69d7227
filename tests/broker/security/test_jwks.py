"""Tokens that are signed, and the keys that are read again when issuers change them."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import jwt
import pytest
from cryptography.hazmat.primitives.asymmetric import ec, ed25519, rsa

from minikafka.broker.security.jwks import JwksSettings, KeySet
from minikafka.metadata.settings import InvalidSettingError
from minikafka.security.oauthbearer import InvalidTokenError

CLAIMS = {"sub": "alice"}
SIGNERS: dict[str, tuple[Any, Any]] = {
    "RS256": (jwt.algorithms.RSAAlgorithm, rsa.generate_private_key(65_537, 2048)),
    "ES256": (jwt.algorithms.ECAlgorithm, ec.generate_private_key(ec.SECP256R1())),
    "EdDSA": (jwt.algorithms.OKPAlgorithm, ed25519.Ed25519PrivateKey.generate()),
}


def public(name: str, **more: object) -> dict[str, Any]:
    algorithm, key = SIGNERS[name]
    found: dict[str, Any] = algorithm.to_jwk(key.public_key(), as_dict=True)
    return {**found, "kid": name, "use": "sig", **more}


def signed(name: str, kid: str | None = None) -> str:
    return jwt.encode(CLAIMS, SIGNERS[name][1], name, headers={"kid": kid or name})


class Clock:
    def __init__(self) -> None:
        self.now = 1000.0

    def __call__(self) -> float:
        return self.now


class World:
    """Keys in a file, as they are announced."""

    def __init__(self, path: Path) -> None:
        self.path = path / "jwks.json"
        self.clock = Clock()

    def announce(self, *keys: dict[str, Any]) -> None:
        self.path.write_text(json.dumps({"keys": keys}), encoding="utf-8")

    def keys(self) -> KeySet:
        return KeySet(JwksSettings(self.path.as_uri(), 3600.0, 0.1, 10.0), self.clock)


@pytest.fixture
def world(tmp_path: Path) -> World:
    return World(tmp_path)


@pytest.mark.parametrize("name", SIGNERS)
def test_a_token_is_believed_by_the_key_that_signed_it(world: World, name: str) -> None:
    world.announce(*(public(one) for one in SIGNERS))
    assert world.keys().claims(signed(name)) == CLAIMS


def test_a_token_that_names_no_key_is_tried_with_all(world: World) -> None:
    world.announce(public("RS256"), public("ES256"))
    token = jwt.encode(CLAIMS, SIGNERS["ES256"][1], "ES256")
    assert world.keys().claims(token) == CLAIMS


def forgeries() -> list[str]:
    good = signed("RS256")
    head, claims, signature = good.split(".")
    # A verifier that takes the public key for a symmetric one would believe this.
    secret = public("RS256")["n"]
    return [
        "",
        "a.b.c",
        good[:-8],
        f"{head}.{claims}.",
        f"{head}.{claims}x.{signature}",
        jwt.encode(CLAIMS, "", "none"),
        jwt.encode(CLAIMS, secret, "HS256", headers={"kid": "RS256"}),
        signed("ES256", "RS256"),
        "x" * 70_000,
    ]


@pytest.mark.parametrize("token", forgeries())
def test_a_forged_token_is_not_believed(world: World, token: str) -> None:
    world.announce(public("RS256"))
    keys = world.keys()
    with pytest.raises(InvalidTokenError):
        keys.claims(token)
    keys.wait()


def test_a_key_that_is_new_is_found_and_an_old_one_forgotten(world: World) -> None:
    world.announce(public("RS256"))
    keys = world.keys()
    world.announce(public("ES256"))
    world.clock.now += 1
    with pytest.raises(InvalidTokenError, match="known key"):
        keys.claims(signed("ES256"))
    keys.wait()
    assert keys.claims(signed("ES256")) == CLAIMS
    with pytest.raises(InvalidTokenError, match="known key"):
        keys.claims(signed("RS256"))
    keys.wait()


def test_tokens_with_unknown_keys_do_not_make_it_read_without_end(world: World) -> None:
    world.announce(public("RS256"))
    keys = world.keys()
    world.announce(public("ES256"))
    for _ in range(3):  # the keys were read at this very moment
        with pytest.raises(InvalidTokenError):
            keys.claims(signed("ES256"))
        keys.wait()
    assert keys.claims(signed("RS256")) == CLAIMS


def test_keys_that_are_old_are_read_again_and_kept_if_that_fails(world: World) -> None:
    world.announce(public("RS256"))
    keys = world.keys()
    world.path.unlink()
    world.clock.now += 3601
    for _ in range(2):
        assert keys.claims(signed("RS256")) == CLAIMS
        keys.wait()
    world.announce(public("ES256"))
    world.clock.now += 1
    assert keys.claims(signed("RS256")) == CLAIMS
    keys.wait()
    assert keys.claims(signed("ES256")) == CLAIMS


@pytest.mark.parametrize(
    ("content", "text"),
    [
        ("", "no JSON Web Key Set"),
        ("[]", "no JSON Web Key Set"),
        ('{"keys": 7}', "no JSON Web Key Set"),
        ('{"keys": [7]}', "no JSON Web Key Set"),
        ('{"keys": [{"kty": "RSA"}]}', "no JSON Web Key Set"),
        ('{"keys": []}', "no public key"),
        ('{"keys": [{"kty": "oct", "k": "c2VjcmV0"}]}', "no public key"),
        ('{"keys": [{"kty": "RSA", "use": "enc"}]}', "no public key"),
        (" " * (1 << 20) + "{}", "more than"),
    ],
)
def test_what_is_no_set_of_public_keys_is_refused(world: World, content: str, text: str) -> None:
    world.path.write_text(content, encoding="utf-8")
    with pytest.raises(InvalidSettingError, match=text):
        world.keys()


@pytest.mark.parametrize("url", ["", "jwks.json", "http://example.com/jwks", "ftp://h/jwks"])
def test_keys_do_not_come_over_a_network_that_others_can_write_to(url: str) -> None:
    with pytest.raises(InvalidSettingError, match="file: or https:"):
        KeySet(JwksSettings(url), Clock())
