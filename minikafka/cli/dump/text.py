"""Entries as lines for people."""

from __future__ import annotations

import json
from typing import Any

from ..failure import printable
from ..output import iso_time
from .entry import Entry


def text_of(entry: Entry) -> str:
    """A line, indented if it belongs to the one before it."""
    match entry["type"]:
        case "batch":
            return _batch(entry)
        case "record":
            return _record(entry)
        case "damage":
            return _damage(entry)
        case "index_entry":
            return f"offset {entry['offset']}  position {entry['position']}"
        case "time_index_entry":
            return f"{iso_time(entry['timestamp_ms'])}  offset {entry['offset']}"
        case "file_kind":
            return f"kind {entry['kind']}"
        case "metadata_record" if "fields" in entry:
            return f"  {entry['index']}  {entry['kind']}  {_plain(entry['fields'])}"
        case "producer":
            return _producer(entry)
        case "open_transaction" | "aborted_transaction" as kind:
            rest = {name: value for name, value in entry.items() if name != "type"}
            return f"{kind.replace('_', ' ')}  {_plain(rest)}"
        case _:
            rest = {name: value for name, value in entry.items() if name != "type"}
            return _plain(rest)


def _batch(entry: Entry) -> str:
    records = entry["record_count"]
    parts = [
        f"batch at {entry['position']}",
        f"offset {entry['base_offset']}..{entry['last_offset']}",
        "1 record" if records == 1 else f"{records} records",
        f"{entry['size_bytes']} bytes",
        f"epoch {entry['leader_epoch']}",
        entry["compression"],
        f"{entry['timestamp_type']} {iso_time(entry['max_timestamp_ms'])}",
    ]
    if "producer_id" in entry:
        parts.append(
            f"producer {entry['producer_id']} epoch {entry['producer_epoch']} "
            f"sequence {entry['base_sequence']}..{entry['last_sequence']}"
        )
    parts += ["transactional"] if entry["is_transactional"] else []
    parts += ["control"] if entry["is_control"] else []
    if "delete_horizon_ms" in entry:
        parts.append(f"delete horizon {iso_time(entry['delete_horizon_ms'])}")
    return "  ".join(parts)


def _record(entry: Entry) -> str:
    parts = [f"  {entry['offset']}", iso_time(entry["timestamp_ms"])]
    if "control" in entry:
        parts.append(f"control {entry['control']}")
    elif "decoded" in entry:
        parts.append(_plain(entry["decoded"]))
    else:
        parts += [f"key {_json(entry['key'])}", f"value {_json(entry['value'])}"]
    if entry["headers"]:
        listed = " ".join(f"{each['key']}={_json(each['value'])}" for each in entry["headers"])
        parts.append(f"headers {printable(listed)}")
    return "  ".join(parts)


def _producer(entry: Entry) -> str:
    epochs = f"epoch {entry['producer_epoch']}  coordinator epoch {entry['coordinator_epoch']}"
    lines = [f"producer {entry['producer_id']}  {epochs}"]
    lines += [
        f"  sequence {batch['base_sequence']}..{batch['last_sequence']}  "
        f"offset {batch['base_offset']}..{batch['last_offset']}  {iso_time(batch['timestamp_ms'])}"
        for batch in entry["batches"]
    ]
    return "\n".join(lines)


def _damage(entry: Entry) -> str:
    where = f" at {entry['position']}" if "position" in entry else ""
    size = f", {entry['size_bytes']} bytes" if "size_bytes" in entry else ""
    return f"DAMAGE{where}{size}: {printable(entry['reason'])}"


def _plain(fields: dict[str, Any]) -> str:
    return "  ".join(
        f"{name.replace('_', ' ')} {value if isinstance(value, str) else _json(value)}"
        for name, value in fields.items()
    )


def _json(value: Any) -> str:
    return printable(json.dumps(value, ensure_ascii=False))
