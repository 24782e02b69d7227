"""Storage: logs of record batches on a disk that may fail, and everything else a broker writes.

A `LogDirectory` holds one `Log` per partition; a `RecordLog` holds the metadata log. Everything
here is a plain function of its arguments and the disk: no clock, no threads, no network. Only
`disk` calls the operating system. The broker may use every public class, but changes files only
through their methods. A file's format is described where it is written, and may change only so
that the files in tests/golden/storage can still be read.
"""
