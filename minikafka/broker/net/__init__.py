"""Kafka's listener: accepts connections, reads frames, calls handlers, keeps answers in order.

`server` accepts and limits connections, `connection` serves one of them in one task, and `answers`
sends the answers that come later. What a request means is up to its handler; only the size limit of
Produce and the answer to an unknown version of ApiVersions are decided here.
"""
