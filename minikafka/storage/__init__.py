"""The storage floor: logs of record batches on a disk that may fail."""
