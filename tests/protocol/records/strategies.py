"""Hypothesis strategies for records, headers and batches."""

from hypothesis import strategies as st

from minikafka.protocol.records import BatchFields, Compression

RecordInput = tuple[bytes | None, bytes | None, list[tuple[str, bytes | None]], int]

COMPRESSIONS = list(Compression)

compressions = st.sampled_from(COMPRESSIONS)

# Long enough for lengths that take one, two and (rarely) three bytes.
payloads = st.one_of(
    st.none(),
    st.binary(max_size=80),
    st.builds(
        lambda unit, times: unit * times, st.binary(min_size=1, max_size=3), st.integers(0, 5000)
    ),
)
header_lists = st.lists(
    st.tuples(st.text(max_size=70), st.one_of(st.none(), st.binary(max_size=70))), max_size=3
)
timestamps = st.one_of(
    st.integers(1_700_000_000_000, 1_700_000_000_000 + 200), st.integers(0, 1 << 52), st.just(-1)
)
record_inputs: st.SearchStrategy[RecordInput] = st.tuples(
    payloads, payloads, st.one_of(st.just([]), header_lists), timestamps
)
record_lists = st.lists(record_inputs, min_size=1, max_size=6)

batch_fields: st.SearchStrategy[BatchFields] = st.builds(
    BatchFields,
    base_offset=st.integers(0, 1 << 40),
    partition_leader_epoch=st.integers(-1, (1 << 31) - 1),
    compression=compressions,
    producer_id=st.integers(-1, (1 << 63) - 1),
    producer_epoch=st.integers(-1, (1 << 15) - 1),
    base_sequence=st.integers(-1, (1 << 31) - 1),
    is_transactional=st.booleans(),
)
