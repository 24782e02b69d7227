"""The load: each module is one process that puts work on a broker and prints what it measured."""
