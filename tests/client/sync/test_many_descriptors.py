"""The blocking API in a program with more than 1,024 open files, which select() refuses."""

from __future__ import annotations

import resource
import subprocess
import sys

DESCRIPTORS = 1_100

PROGRAM = """
import os, resource, sys
from minikafka_client import NewTopic, TopicPartition
from minikafka_client.sync import AdminClient, Consumer, Producer, Reader, Writer

bootstrap, topic, wanted = sys.argv[1], sys.argv[2], int(sys.argv[3])
_, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
resource.setrlimit(resource.RLIMIT_NOFILE, (wanted + 200, hard))
taken = [os.open(os.devnull, os.O_RDONLY) for _ in range(wanted)]
assert taken[-1] > 1024, taken[-1]
where = TopicPartition(topic, 0)
with AdminClient(bootstrap) as admin:
    admin.create_topics([NewTopic(topic, 1)])
    # With less patience than request_timeout_ms they wait with a selector, not in recv.
    with Writer(bootstrap, delivery_timeout_ms=20_000) as writer:
        for number in range(10):
            writer.send(topic, b"%d" % number)
    with Producer(bootstrap) as producer:
        producer.send(topic, b"10").result()
    with Reader(bootstrap, {where: (0, 11)}, patience_ms=20_000) as reader:
        print(sum(len(run) for run in reader))
    with Consumer(bootstrap, auto_offset_reset="earliest") as consumer:
        consumer.assign([where])
        print(next(iter(consumer)).value)
    print(admin.list_offsets({where: -1})[where].offset)
"""


def test_a_program_with_many_open_files(bootstrap: str, name: str) -> None:
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    assert hard == resource.RLIM_INFINITY or hard > DESCRIPTORS + 200, "ulimit -Hn is too low"
    finished = subprocess.run(
        [sys.executable, "-c", PROGRAM, bootstrap, name, str(DESCRIPTORS)],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert (finished.returncode, finished.stdout.split()) == (0, ["11", "b'0'", "11"]), finished
