"""The subject of a certificate as text, exactly as Java writes it (RFC 2253).

Kafka's ACLs name principals by this text, so it has to be the same to the character: the order
is reversed, nine types of attributes have short names, others are numbers with the value in
hexadecimal digits, and what has a meaning in RFC 2253 gets a backslash.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final, NamedTuple

__all__ = ["MalformedCertificateError", "subject_of"]

_SEQUENCE: Final = 0x30
_SET: Final = 0x31
_OBJECT_ID: Final = 0x06
_VERSION: Final = 0xA0
_LONG_LENGTH: Final = 0x80
_LENGTH_BYTES_MAX: Final = 4
_FIELDS_BEFORE_SUBJECT: Final = 4
"""Serial number, algorithm of the signature, issuer and validity."""

_TEXTS: Final = frozenset((0x0C, 0x13, 0x14, 0x16, 0x1B, 0x1E))
"""UTF8, Printable, T61, IA5, General and BMP strings: what Java writes as text."""

_NAMES: Final = {
    "2.5.4.3": "CN",
    "2.5.4.6": "C",
    "2.5.4.7": "L",
    "2.5.4.8": "ST",
    "2.5.4.9": "STREET",
    "2.5.4.10": "O",
    "2.5.4.11": "OU",
    "0.9.2342.19200300.100.1.25": "DC",
    "0.9.2342.19200300.100.1.1": "UID",
}
_SPECIAL: Final = frozenset(',=+<>#;"\\')


class MalformedCertificateError(ValueError):
    """Bytes that are no certificate."""


class _Element(NamedTuple):
    tag: int
    content: bytes
    encoded: bytes


def subject_of(certificate: bytes) -> str:
    """The name of whom a certificate is for.

    Args:
        certificate: in DER.

    Raises:
        MalformedCertificateError: it is no certificate.
    """
    outer = next(_elements(certificate), None)
    fields = list(_elements(_inside(next(_elements(_inside(outer, _SEQUENCE)), None), _SEQUENCE)))
    if fields and fields[0].tag == _VERSION:
        del fields[0]
    if len(fields) <= _FIELDS_BEFORE_SUBJECT:
        raise MalformedCertificateError("a certificate has no subject")
    parts = list(_elements(_inside(fields[_FIELDS_BEFORE_SUBJECT], _SEQUENCE)))
    return ",".join(
        "+".join(map(_attribute, _elements(_inside(part, _SET)))) for part in reversed(parts)
    )


def _inside(element: _Element | None, tag: int) -> bytes:
    if element is None or element.tag != tag:
        raise MalformedCertificateError("a certificate has another structure than X.509's")
    return element.content


def _elements(encoded: bytes) -> Iterator[_Element]:
    """The elements that stand one after the other in DER."""
    position = 0
    while position < len(encoded):
        start, header = position, encoded[position : position + 2]
        if len(header) < 2:
            raise MalformedCertificateError("a certificate ends too early")
        position += 2
        length = header[1]
        if length >= _LONG_LENGTH:
            count = length - _LONG_LENGTH
            if not 0 < count <= _LENGTH_BYTES_MAX:
                raise MalformedCertificateError("a certificate has an impossible length")
            length = int.from_bytes(encoded[position : position + count], "big")
            position += count
        end = position + length
        if end > len(encoded):
            raise MalformedCertificateError("a certificate ends too early")
        yield _Element(header[0], encoded[position:end], encoded[start:end])
        position = end


def _attribute(element: _Element) -> str:
    pair = list(_elements(_inside(element, _SEQUENCE)))
    if len(pair) != 2:
        raise MalformedCertificateError("a name in a certificate is malformed")
    number = _object_id(_inside(pair[0], _OBJECT_ID))
    value = pair[1]
    if number not in _NAMES or value.tag not in _TEXTS:
        return f"{_NAMES.get(number, number)}=#{value.encoded.hex()}"
    return f"{_NAMES[number]}={_escaped(value.content.decode('utf-8', 'replace'))}"


def _object_id(content: bytes) -> str:
    numbers: list[int] = []
    value = 0
    for byte in content:
        value = value << 7 | byte & 0x7F
        if byte < _LONG_LENGTH:
            numbers.append(value)
            value = 0
    if not numbers:
        raise MalformedCertificateError("a name in a certificate has no type")
    first = min(numbers[0] // 40, 2)
    return ".".join(map(str, (first, numbers[0] - 40 * first, *numbers[1:])))


def _escaped(text: str) -> str:
    # Java takes a carriage return at the ends for a space, too.
    first = len(text) - len(text.lstrip(" \r"))
    last = len(text.rstrip(" \r"))
    shown: list[str] = []
    for position, character in enumerate(text):
        if character == "\0":
            shown.append("\\00")
        elif character in _SPECIAL or not first <= position < last:
            shown.append("\\" + character)
        else:
            shown.append(character)
    return "".join(shown)
