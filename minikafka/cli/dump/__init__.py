"""What lies in a data directory, in readable form: one reader for each kind of file.

A reader yields entries: dictionaries with a ``type``, made for JSON. `text` turns an entry into a
line for people. What is damaged is an entry of type ``damage``; a reader goes on behind it if it
can tell where. Nothing here writes.
"""
