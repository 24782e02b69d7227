"""``minikafka cluster``: the group of its commands, and what its help teaches."""

from __future__ import annotations

import click

from . import nodes, status, up


@click.group("cluster")
def command() -> None:
    r"""Run a cluster on this machine, look at it, and break it.

    Every broker is a process of its own; three brokers survive the loss of any one. `up` runs them
    in the foreground and keeps everything in one directory, ./minikafka-cluster unless --data-dir
    or MINIKAFKA_CLUSTER says otherwise, where the other commands find it. Its cluster.json always
    says which process is which broker.

    \b
    What acks=all guarantees, in two terminals:
      minikafka cluster up --data-dir demo
      export MINIKAFKA_CLUSTER=demo MINIKAFKA_BOOTSTRAP=127.0.0.1:9092,127.0.0.1:9093
      minikafka topic create orders
      minikafka topic describe orders           # which broker is the leader?
      seq 100000 | minikafka produce orders --acks all &
      minikafka cluster kill leader:orders      # like a crash
      minikafka cluster status                  # another broker is the leader
      minikafka cluster start all               # the dead one comes back and catches up
      minikafka cluster status --watch

    \b
    What acks=1 does not: the leader acknowledges records that no other broker has.
      minikafka cluster pause followers:orders
      echo lucky | minikafka produce orders --acks 1     # answers a fetch that is already waiting
      seq 5 | minikafka produce orders --acks 1          # acknowledged, but on one broker only
      minikafka cluster kill leader:orders
      minikafka cluster resume all              # a follower becomes the leader, without these five
      minikafka consume orders --from-beginning
    """


for each in (up.command, status.command, nodes.kill, nodes.pause, nodes.resume, nodes.start):
    command.add_command(each)
