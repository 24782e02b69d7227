"""The cluster's metadata on this node: the image, the active controller, and the way to it.

Metadata changes only through `Controller.change`; brokers and clients reach it
through `forwarder`.
Registration, heartbeats and the connections between nodes are here, too.
"""
