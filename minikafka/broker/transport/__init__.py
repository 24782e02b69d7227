"""Bytes in and out of a socket, for connections of clients and of nodes alike.

Buffers and file slices leave in order, with `sendmsg`, and with `sendfile` to other machines. No
protocol is known here.
"""
