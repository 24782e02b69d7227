"""Our codec and kio's agree on every version of every API, byte for byte."""

from __future__ import annotations

from typing import Any

import pytest
from kio.schema.errors import ErrorCode as KioErrorCode
from kio.schema.index import api_key_map, schema_name_map

from minikafka.protocol.api import ApiKey, request_class, response_class
from minikafka.protocol.errors import ErrorCode
from minikafka.protocol.fields import Struct, struct_fields
from tests.protocol import kio_oracle
from tests.protocol.instances import Case, every_case, random_message, seeded

MESSAGES_PER_VERSION = 12
KNOWN_CASES = [case for case in every_case() if kio_oracle.is_known(case)]


@pytest.mark.parametrize("case", KNOWN_CASES, ids=str)
def test_writes_what_kio_writes_and_both_read_it_back(case: Case) -> None:
    source = seeded(case)
    for _ in range(MESSAGES_PER_VERSION):
        message = random_message(case, source)
        wire = message.encode_to_bytes(case.version)
        assert wire == kio_oracle.kio_bytes(case, message)

        entity, size_bytes = kio_oracle.kio_read(case, wire)
        assert size_bytes == len(wire)
        assert kio_oracle.values_of_kio(entity) == kio_oracle.values_of(message, case.version)

        assert case.message.decode(case.version, wire) == message


@pytest.mark.parametrize("case", KNOWN_CASES, ids=str)
def test_declares_the_fields_that_kio_has(case: Case) -> None:
    _same_declaration(case.message, case.version, kio_oracle.kio_class(case))


def _same_declaration(ours: type[Struct], version: int, theirs: Any) -> None:
    for field, kio_field in zip(
        struct_fields(ours, version), kio_oracle.kio_fields(theirs), strict=True
    ):
        where = f"{ours.__name__}.{field.name} v{version}"
        assert kio_field.name in {field.name, kio_oracle.kio_name(field)}, where
        assert (field.kind == "array") == kio_field.is_array, where
        assert (field.tag if version in field.tagged else None) == kio_field.tag, where
        if kio_field.kafka_type not in {"uuid", "datetime_i64"}:  # None means zero there
            assert (version in field.nullable) == kio_field.nullable, where
        struct = field.item.struct if field.item is not None else field.struct
        assert (struct is None) == (kio_field.struct is None), where
        if struct is not None:
            _same_declaration(struct, version, kio_field.struct)


@pytest.mark.parametrize(
    "api_key",
    [key for key in ApiKey if key not in kio_oracle.NEWER_APIS],
    ids=lambda key: key.title,
)
def test_an_api_has_the_name_and_the_versions_that_kio_knows(api_key: ApiKey) -> None:
    name = api_key_map[api_key]
    assert name.replace("_", "") == api_key.title.lower()
    versions = sorted(schema_name_map[name])
    for message in (request_class(api_key), response_class(api_key)):
        last = kio_oracle.NEWER_VERSIONS.get(api_key, versions[-1])
        assert (versions[0], last) == message.VERSIONS
        assert api_key == message.API_KEY


def test_error_codes_are_those_of_kio() -> None:
    ours = {
        code.name: (int(code), code.is_retriable)
        for code in ErrorCode
        if code.name not in kio_oracle.NEWER_ERRORS
    }
    theirs = {code.name.upper(): (int(code.value), code.retriable) for code in KioErrorCode}
    assert ours == theirs
