"""Connections between the same two nodes, by what they carry."""

from enum import IntEnum


class Lane(IntEnum):
    """Connections to the same node that do not hold each other up.

    Votes and heartbeats must wait neither behind ten megabytes of records nor behind whatever
    clients ask: a connection has a limit of open requests, and is not read above one of bytes.

    Attributes:
        CONTROL: the quorum, and what brokers themselves ask the controller and each other.
        RECORDS: replica fetch.
        FORWARDED: requests of clients for the controller.
        CONFIRMATIONS: transactions that clients write in, for their coordinators (KIP-890).
    """

    CONTROL = 0
    RECORDS = 1
    FORWARDED = 2
    CONFIRMATIONS = 3
