"""Names in certificates as Java writes them; ``X500Principal.getName()`` is the model."""

from __future__ import annotations

import datetime
from contextlib import suppress

import pytest
from cryptography import x509
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.serialization import Encoding
from cryptography.x509.oid import NameOID
from hypothesis import given
from hypothesis import strategies as st

from minikafka.security.distinguished_name import MalformedCertificateError, subject_of

KEY = ec.generate_private_key(ec.SECP256R1())
START = datetime.datetime(2026, 1, 1)


def certificate(*parts: list[tuple[x509.ObjectIdentifier, str]]) -> bytes:
    """A certificate in DER for a name with these parts, the first in the file first."""
    name = x509.Name(
        x509.RelativeDistinguishedName([x509.NameAttribute(*one) for one in part]) for part in parts
    )
    builder = x509.CertificateBuilder(
        issuer_name=x509.Name([]),
        subject_name=name,
        public_key=KEY.public_key(),
        serial_number=1,
        not_valid_before=START,
        not_valid_after=START + datetime.timedelta(days=1),
    )
    return builder.sign(KEY, SHA256()).public_bytes(Encoding.DER)


def test_the_last_part_comes_first() -> None:
    encoded = certificate(
        [(NameOID.COUNTRY_NAME, "US")],
        [(NameOID.ORGANIZATION_NAME, "Org")],
        [(NameOID.ORGANIZATIONAL_UNIT_NAME, "Unit")],
        [(NameOID.COMMON_NAME, "alice")],
    )
    assert subject_of(encoded) == "CN=alice,OU=Unit,O=Org,C=US"


def test_types_without_a_short_name_are_numbers_with_hexadecimal_values() -> None:
    encoded = certificate([(NameOID.EMAIL_ADDRESS, "a@b")], [(NameOID.COMMON_NAME, "a")])
    assert subject_of(encoded) == "CN=a,1.2.840.113549.1.9.1=#1603614062"


def test_a_part_may_have_several_attributes() -> None:
    encoded = certificate(
        [(NameOID.COMMON_NAME, "a"), (NameOID.USER_ID, "7")], [(NameOID.DOMAIN_COMPONENT, "d")]
    )
    assert subject_of(encoded) in ("DC=d,CN=a+UID=7", "DC=d,UID=7+CN=a")


@pytest.mark.parametrize(
    ("value", "shown"),
    [
        ('a,b+c"d\\e<f>g;h=i#j', 'a\\,b\\+c\\"d\\\\e\\<f\\>g\\;h\\=i\\#j'),
        (" two  spaces ", "\\ two  spaces\\ "),
        ("Zoë 🦊", "Zoë 🦊"),
    ],
)
def test_what_has_a_meaning_gets_a_backslash(value: str, shown: str) -> None:
    assert subject_of(certificate([(NameOID.COMMON_NAME, value)])) == f"CN={shown}"


def test_a_certificate_may_have_an_empty_name() -> None:
    assert subject_of(certificate()) == ""


WHOLE = certificate([(NameOID.COMMON_NAME, "alice")])


@given(st.lists(st.tuples(st.integers(0, len(WHOLE) - 1), st.integers(0, 255)), max_size=4))
def test_damaged_certificates_are_refused_or_read(changes: list[tuple[int, int]]) -> None:
    damaged = bytearray(WHOLE)
    for position, byte in changes:
        damaged[position] = byte
    with suppress(MalformedCertificateError):
        assert isinstance(subject_of(bytes(damaged)), str)


@given(st.integers(0, len(WHOLE) - 1))
def test_a_certificate_that_ends_too_early_is_refused(size: int) -> None:
    with pytest.raises(MalformedCertificateError):
        subject_of(WHOLE[:size])
