"""Metadata: what a cluster knows, how that is stored, and the controller's decisions about it.

``records`` declares what the metadata log holds, ``image`` is what it adds up to. Every decision of
the active controller is a function here: it takes the image (and what a request asks for) and
returns a `Decision`, the records to append and the result to answer with; nothing changes until the
records are committed and replayed, on every node alike. ``setting_table`` declares all settings.

No socket, disk or clock: the broker's control room runs the decisions. A new decision is a function
in the module of its subject; a change of a partition goes through ``partition_change``, which keeps
the invariants; a new record is declared in ``records`` and replayed in ``image``.
"""
