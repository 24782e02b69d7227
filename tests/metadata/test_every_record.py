"""Every declared record is replayed and, if it leaves something behind, is in the snapshot.

The records are drawn from their declarations, so a new type is tested here as soon as it is
declared, and these tests fail as long as its replay or its part of the snapshot is missing.
"""

from __future__ import annotations

import inspect
from collections.abc import Iterator
from typing import Any, get_args, get_type_hints

import pytest
from hypothesis import Phase, find, given, settings
from hypothesis import strategies as st

from minikafka.metadata import records as declarations
from minikafka.metadata.image import InconsistentMetadataError, MetadataImage
from minikafka.metadata.records import MetadataRecord, decode_record, encode_record
from tests.kit.examples import examples

KINDS = get_args(MetadataRecord)

# Few values, so that records refer to each other.
SMALL: dict[type[Any], st.SearchStrategy[Any]] = {
    int: st.integers(0, 2),
    str: st.sampled_from(["a", "a.b", "a_b"]),
    bytes: st.sampled_from([b"1" * 16, b"2" * 16]),
    bool: st.booleans(),
    float: st.sampled_from([0.5, 2.0]),
}


def drawn(kind: type[Any]) -> st.SearchStrategy[Any]:
    """Any record of a type, of small values."""
    fields = {name: _of(hint) for name, hint in get_type_hints(kind).items()}
    return st.builds(kind, **fields)


def _of(hint: Any) -> st.SearchStrategy[Any]:
    if hint in SMALL:
        return SMALL[hint]
    if hasattr(hint, "_fields"):
        return drawn(hint)
    arguments = get_args(hint)
    if arguments[-1] is Ellipsis:
        return st.lists(_of(arguments[0]), max_size=2).map(tuple)
    return st.one_of([st.none() if one is type(None) else _of(one) for one in arguments])


RECORDS: st.SearchStrategy[MetadataRecord] = st.sampled_from(KINDS).flatmap(drawn)
HISTORIES = st.lists(RECORDS, max_size=6)


def replayed(history: list[MetadataRecord]) -> Iterator[tuple[MetadataImage, MetadataRecord]]:
    """The image after each record that fits those before it."""
    image = MetadataImage()
    for record in history:
        try:
            image.replay(record)
        except InconsistentMetadataError:
            continue
        yield image, record


def content(image: MetadataImage) -> dict[str, Any]:
    """All that an image holds, whatever it is called; only its age does not count."""
    return {name: getattr(image, name) for name in image.__slots__ if name != "version"}


def rebuilt(image: MetadataImage) -> MetadataImage:
    """An image of the snapshot of another one, stored and read."""
    copy = MetadataImage()
    for record in image.records():
        copy.replay(decode_record(encode_record(record)))
    return copy


@given(history=HISTORIES)
def test_a_snapshot_rebuilds_everything_that_an_image_holds(history: list[MetadataRecord]) -> None:
    for image, _ in replayed(history):
        assert content(rebuilt(image)) == content(image)


def test_every_record_in_the_module_of_declarations_has_a_number() -> None:
    declared = {
        kind
        for name, kind in inspect.getmembers(declarations, inspect.isclass)
        if name.endswith("Record")
    }
    assert declared == set(KINDS)


@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.__name__)
def test_every_record_changes_what_a_snapshot_holds(kind: type[Any]) -> None:
    """Fails for a type that is replayed as nothing, or whose effect is not in the snapshot."""

    def is_seen(history: list[MetadataRecord]) -> bool:
        before: list[MetadataRecord] = []
        for image, record in replayed(history):
            after = list(image.records())
            if type(record) is kind and after != before:
                return True
            before = after
        return False

    histories = st.tuples(HISTORIES, drawn(kind)).map(lambda parts: [*parts[0], parts[1]])
    only_look = settings(max_examples=examples(3_000), phases=[Phase.generate], derandomize=True)
    assert is_seen(find(histories, is_seen, settings=only_look))
