"""Files of records: what was written is read, and what was cut off is noticed."""

import io

import pytest
from hypothesis import given
from hypothesis import strategies as st

from minikafka.cli.record_files import (
    FileFormat,
    FileRecord,
    MalformedFileError,
    Reading,
    Writing,
)

OCTETS = st.none() | st.binary(max_size=20)
NAMES = st.text(st.characters(exclude_categories=["Cs"]), max_size=5)
RECORDS = st.lists(
    st.builds(
        FileRecord,
        st.integers(0, 2),
        st.integers(0, 2**63 - 1),
        st.integers(-1, 2**63 - 1),
        OCTETS,
        OCTETS,
        st.lists(st.tuples(NAMES, OCTETS), max_size=3).map(tuple),
    ),
    max_size=5,
)
FORMS = st.sampled_from(["jsonl", "msgpack"])


def written(form: FileFormat, records: list[FileRecord]) -> bytes:
    file = io.BytesIO()
    writing = Writing(file, form, "orders", 3)
    for record in records:
        writing.record(record)
    writing.end()
    assert writing.size_bytes == len(file.getvalue())
    return file.getvalue()


@given(FORMS, RECORDS)
def test_what_was_written_is_read(form: FileFormat, records: list[FileRecord]) -> None:
    reading = Reading(io.BytesIO(written(form, records)), form)
    assert (reading.topic, reading.partitions) == ("orders", 3)
    assert list(reading.records()) == records


@given(FORMS, RECORDS, st.data())
def test_a_file_that_was_cut_off_is_noticed(
    form: FileFormat, records: list[FileRecord], data: st.DataObject
) -> None:
    whole = written(form, records)
    end = data.draw(st.integers(0, len(whole) - 2))  # the last line break is not needed
    with pytest.raises(MalformedFileError):
        list(Reading(io.BytesIO(whole[:end]), form).records())


@pytest.mark.parametrize(
    ("lines", "words"),
    [
        ('{"a":1}\n', "no file of `minikafka topic dump`"),
        ('{"minikafka_records":2,"topic":"t","partitions":1}\n', "has version 2"),
        ('{"minikafka_records":1,"topic":"t","partitions":0}\n', "names no topic"),
        ("{HEAD}{RECORD}" + '{"records":2}\n', "has 1 records and says 2"),
        ("{HEAD}" + '{"partition":0}\n', "record 1 of the file cannot be read"),
        ("{HEAD}" + "[1\n", "is not JSON"),
        ("{HEAD}{RECORD}".replace("{RECORD}", "{FAR}"), "record 1 of the file cannot be read"),
    ],
)
def test_a_wrong_file_is_refused_with_a_reason(lines: str, words: str) -> None:
    record = '{"partition":0,"offset":0,"timestamp_ms":1,"key":null,"value":"v","headers":[]}\n'
    text = lines.replace("{HEAD}", '{"minikafka_records":1,"topic":"t","partitions":1}\n')
    text = text.replace("{RECORD}", record).replace("{FAR}", record.replace("0", "1", 1))
    with pytest.raises(MalformedFileError, match=words):
        list(Reading(io.BytesIO(text.encode()), "jsonl").records())
