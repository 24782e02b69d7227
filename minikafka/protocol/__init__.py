"""Kafka's wire protocol: bytes to typed messages and back. Nothing here does I/O.

    frames      headers and sizes: what precedes each request and response
    api         the table of APIs, which finds the classes of a request and its response
    messages/   the declarations, one module per API
    schema      what a declaration can do: encode and decode each of its versions
    fields      what a declaration is made of: structs, fields, version ranges, defaults
    encoder, decoder, codec, source, flexible    generate the code for one version of one message
    faults      why a message could not be encoded
    errors      Kafka's error codes; exceptions has the Python ones
    records/    record batches, which messages carry as payloads

Every length and count that is read is checked against the bytes that remain before anything is
allocated for it.
"""
