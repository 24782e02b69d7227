"""From a line of text to a record."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from minikafka_client import ProducerRecord

from .failure import CommandFailed

_SHOWN_BYTES = 60


class LineReader:
    """Makes records of lines.

    Args:
        key_separator: what stands between key and value, None for records without a key.
        null_text: a value of exactly this is null.
        headers: of every record.
        partition: where every record goes, None for the partitioner's choice.
    """

    def __init__(
        self,
        *,
        key_separator: bytes | None = None,
        null_text: bytes | None = None,
        headers: Sequence[tuple[str, bytes | None]] = (),
        partition: int | None = None,
    ) -> None:
        self._key_separator = key_separator
        self._null_text = null_text
        self._headers = tuple(headers)
        self._partition = partition
        self._line_number = 0

    def records(self, lines: Iterable[bytes]) -> list[ProducerRecord]:
        """One record for each line.

        Raises:
            CommandFailed: a line has no key separator; the message has its number.
        """
        records: list[ProducerRecord] = []
        separator, null_text = self._key_separator, self._null_text
        for line in lines:
            self._line_number += 1
            key: bytes | None = None
            value: bytes | None = line
            if separator is not None:
                key, found, value = line.partition(separator)
                if not found:
                    raise CommandFailed(
                        f"line {self._line_number} has no key separator "
                        f"{separator.decode(errors='replace')!r}: "
                        f"{line[:_SHOWN_BYTES].decode(errors='replace')!r}; "
                        f"nothing of it or after it was sent"
                    )
            if value == null_text:
                value = None
            records.append(ProducerRecord(value, key, self._headers, None, self._partition))
        return records
