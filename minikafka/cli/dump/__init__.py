"""The contents of a data directory in readable form: one reader for each kind of file.

A reader yields entries: dictionaries with a ``type``, made for JSON. `text` turns an entry into a
line for people. Damage is an entry of type ``damage``, after which a reader continues if it can
tell where. Unlike the modules of `minikafka.storage`, nothing here repairs or writes a file.
"""
