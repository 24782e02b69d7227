"""SCRAM credentials in the metadata (KIP-554)."""

from __future__ import annotations

import pytest

from minikafka.metadata.decision import Refusal
from minikafka.metadata.image import MetadataImage
from minikafka.metadata.records import MetadataRecord, RemoveScramCredentialRecord
from minikafka.metadata.scram_credentials import Deletion, Upsertion, alter_scram_credentials
from minikafka.protocol.errors import ErrorCode
from minikafka.security.scram import ScramMechanism, password_matches, salted_password

SHA_256, SHA_512 = ScramMechanism.SCRAM_SHA_256, ScramMechanism.SCRAM_SHA_512


def upsertion(
    user: str = "alice", mechanism: int = 1, iterations: int = 4096, password: str = "secret"
) -> Upsertion:
    known = ScramMechanism(mechanism) if mechanism in (1, 2) else SHA_256
    salted = salted_password(known, password, b"salt", max(1, min(iterations, 20_000)))
    return Upsertion(user, mechanism, iterations, b"salt", salted)


def altered(image: MetadataImage, *alterations: Deletion | Upsertion) -> dict[str, Refusal | None]:
    decision = alter_scram_credentials(image.scram_credentials, alterations)
    for record in decision.records:
        image.replay(record)
    return decision.result


def test_a_credential_is_set_replaced_and_deleted() -> None:
    image = MetadataImage()
    credentials = image.scram_credentials
    assert altered(image, upsertion()) == {"alice": None}
    assert password_matches(SHA_256, credentials.find(SHA_256, "alice"), "secret")
    altered(image, upsertion(password="new", iterations=8192))
    assert password_matches(SHA_256, credentials.find(SHA_256, "alice"), "new")
    altered(image, upsertion(mechanism=2))
    assert sorted(credentials.of_user("alice")) == [1, 2]
    assert altered(image, Deletion("alice", 1)) == {"alice": None}
    assert (credentials.users(), sorted(credentials.of_user("alice"))) == (["alice"], [2])
    altered(image, Deletion("alice", 2))
    assert len(credentials) == 0


@pytest.mark.parametrize(
    ("alteration", "code"),
    [
        (upsertion(user=""), ErrorCode.UNACCEPTABLE_CREDENTIAL),
        (upsertion(mechanism=0), ErrorCode.UNSUPPORTED_SASL_MECHANISM),
        (upsertion(mechanism=3), ErrorCode.UNSUPPORTED_SASL_MECHANISM),
        (upsertion(iterations=4095), ErrorCode.UNACCEPTABLE_CREDENTIAL),
        (upsertion(iterations=16_385), ErrorCode.UNACCEPTABLE_CREDENTIAL),
        (Upsertion("alice", 1, 4096, b"", b"x"), ErrorCode.UNACCEPTABLE_CREDENTIAL),
        (Upsertion("alice", 1, 4096, b"x", b""), ErrorCode.UNACCEPTABLE_CREDENTIAL),
        (Deletion("", 1), ErrorCode.UNACCEPTABLE_CREDENTIAL),
        (Deletion("alice", 9), ErrorCode.UNSUPPORTED_SASL_MECHANISM),
        (Deletion("alice", 1), ErrorCode.RESOURCE_NOT_FOUND),
    ],
)
def test_what_kafka_refuses_is_refused(alteration: Deletion | Upsertion, code: ErrorCode) -> None:
    image = MetadataImage()
    results = altered(image, alteration, upsertion(user="bob"))
    refusal = results[alteration.user]
    assert refusal is not None
    assert (refusal.error_code, results["bob"], image.scram_credentials.users()) == (
        code,
        None,
        ["bob"],
    )


def test_a_user_that_is_named_twice_is_left_alone() -> None:
    image = MetadataImage()
    altered(image, upsertion())
    twice: list[Deletion | Upsertion] = [
        Deletion("alice", 1),
        upsertion(mechanism=2),
        upsertion(mechanism=1),
    ]
    refusal = altered(image, *twice)["alice"]
    assert refusal is not None
    assert refusal.error_code is ErrorCode.DUPLICATE_RESOURCE
    assert sorted(image.scram_credentials.of_user("alice")) == [1]


def test_removing_what_is_not_there_changes_nothing() -> None:
    image = MetadataImage()
    image.replay(RemoveScramCredentialRecord("nobody", 1))
    assert list(image.records()) == []


def test_users_without_credentials_get_decoys_that_depend_on_the_cluster() -> None:
    image, other = MetadataImage(), MetadataImage()
    empty = image.scram_credentials.find(SHA_256, "bob")
    for one, password in ((image, "a"), (other, "b")):
        altered(one, upsertion(password=password))
    decoys = [one.scram_credentials.find(SHA_256, "bob") for one in (image, other)]
    assert len({empty, *decoys}) == 3
    assert not any(password_matches(SHA_256, one, "a") for one in decoys)


def test_a_password_that_came_in_full_is_compared_with_any_credential() -> None:
    image = MetadataImage()
    altered(image, upsertion(mechanism=2))
    mechanism, credential = image.scram_credentials.find_any("alice")
    assert (mechanism, password_matches(mechanism, credential, "secret")) == (SHA_512, True)
    mechanism, decoy = image.scram_credentials.find_any("bob")
    assert not password_matches(mechanism, decoy, "secret")


def test_a_record_does_not_show_its_keys() -> None:
    records: list[MetadataRecord] = alter_scram_credentials(
        MetadataImage().scram_credentials, [upsertion()]
    ).records
    assert repr(records) == (
        "[ScramCredentialRecord(user='alice', mechanism=1, iterations=4096, ...)]"
    )
