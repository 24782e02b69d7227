"""One module per API: its request and its response, all versions declared once.

Import a module and use it as a namespace: ``from minikafka.protocol.messages import fetch``, then
``fetch.Request``. Nothing is imported here, so that a process loads only the APIs that it speaks.
"""
