"""What nodes say to each other: msgpack requests on the internal listener.

One connection carries many requests at once; answers come in any order. A frame is a small msgpack
header and raw attachments, so that record batches pass through no packer. See `frames` for the
bytes, `server` for the side that answers, `client` for the side that asks, `peers` for who is
where.

Nothing here is needed by a broker that is alone: its quorum of one opens no internal listener.
"""
