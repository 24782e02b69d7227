"""The part of `minikafka.testing` that runs inside the broker's process.

``python -m minikafka.testing.inside serve ...`` is ``minikafka serve`` with a companion: a control
channel to the program that started it, a listener whose requests can be tampered with, and clocks
that can be moved. No other way of starting a broker loads any of this, so a broker that serves in
earnest cannot be told to misbehave.

`companion` ties it together, `interception` tampers with requests, `error_responses` makes their
error answers, `clocks` has the clocks, `deafness` cuts the broker off, `full_disk` fills its disk,
`failpoints` ends, stops or fails it at points of its work, `commands` is what the other end may
ask for, and `channel` carries that.
"""
