"""``minikafka cluster``: a cluster on one machine, for playing with failures."""

from __future__ import annotations

import click

from . import cluster_nodes, cluster_status, cluster_up


@click.group("cluster")
def command() -> None:
    r"""Run a cluster on this machine, look at it, and break it.

    Every broker is a process of its own; three of them survive the loss of any one. `up` runs them
    in the foreground and keeps everything in one directory, ./minikafka-cluster unless --data-dir
    or MINIKAFKA_CLUSTER says otherwise. The other commands find it there. cluster.json in it says
    at any time which process is which broker.

    \b
    What acks=all is worth, in two terminals:
      minikafka cluster up --data-dir demo
      export MINIKAFKA_CLUSTER=demo MINIKAFKA_BOOTSTRAP=127.0.0.1:9092,127.0.0.1:9093
      minikafka topic create orders
      minikafka topic describe orders           # who leads?
      seq 100000 | minikafka produce orders --acks all &
      minikafka cluster kill leader:orders      # as a crash would
      minikafka cluster status                  # another one leads
      minikafka cluster start all               # it comes back and catches up
      minikafka cluster status --watch

    \b
    What acks=1 is not worth: the leader acknowledges what nobody else has yet.
      minikafka cluster pause followers:orders
      echo lucky | minikafka produce orders --acks 1     # may be on its way to them already
      seq 5 | minikafka produce orders --acks 1          # acknowledged, and on one disk only
      minikafka cluster kill leader:orders
      minikafka cluster resume all              # one of them leads, without these five
      minikafka consume orders --from-beginning
    """


command.add_command(cluster_up.command)
command.add_command(cluster_status.command)
command.add_command(cluster_nodes.kill)
command.add_command(cluster_nodes.pause)
command.add_command(cluster_nodes.resume)
command.add_command(cluster_nodes.start)
