"""The ``minikafka`` command.

``minikafka serve`` must be ready in a fraction of a second, so only the module of the command at
hand is imported, and modules import trio, the client and rich inside of functions.
"""

from __future__ import annotations

import click

from .lazy_group import LazyGroup

_COMMANDS = {
    "serve": ("minikafka.cli.serve", "Run a broker."),
    "topic": ("minikafka.cli.topic", "Create, describe, alter, delete, dump and load topics."),
    "produce": ("minikafka.cli.produce", "Send lines from stdin to a topic."),
    "consume": ("minikafka.cli.consume", "Print the records of topics."),
    "group": ("minikafka.cli.group", "List and describe groups of all kinds, and reset offsets."),
    "share-group": ("minikafka.cli.share_group", "The same for share groups (queues)."),
    "transaction": (
        "minikafka.cli.transaction",
        "Look at transactions, and end those that are stuck.",
    ),
    "user": ("minikafka.cli.user", "Create, list and remove users."),
    "quota": ("minikafka.cli.quota", "Limit how much users, clients and addresses may use."),
    "acl": ("minikafka.cli.acl", "Say who may do what."),
    "client-metrics": (
        "minikafka.cli.client_metrics",
        "Look at the metrics that clients push.",
    ),
    "cluster": ("minikafka.cli.cluster.command", "Run a cluster on this machine, and break it."),
    "quorum": ("minikafka.cli.quorum", "Help controllers that lost data directories."),
    "lab": (
        "minikafka.lab.command",
        "See what each delivery guarantee loses and repeats.",
    ),
    "log": ("minikafka.cli.log", "Look into the files of a data directory."),
}


@click.group(
    "minikafka",
    cls=LazyGroup,
    locations=_COMMANDS,
    context_settings={"help_option_names": ["-h", "--help"]},
)
@click.version_option(package_name="minikafka", prog_name="minikafka")
def main() -> None:
    r"""A Kafka that installs with pip.

    Start a broker with `minikafka serve`, then talk to it with any Kafka client, or with the
    commands below. They work with Apache Kafka, too.

    \b
    To get started, in two terminals:
      minikafka serve
      minikafka topic create orders --partitions 3
      seq 5 | minikafka produce orders
      minikafka consume orders --from-beginning --max-records 5
      minikafka consume orders --group billing --from-beginning
      minikafka group describe billing

    \b
    What the commands that talk to brokers have in common:
      --bootstrap HOST:PORT[,HOST:PORT...]   where the brokers are; also MINIKAFKA_BOOTSTRAP
      --json                                 JSON on stdout, for programs
      exit codes                             0 done, 1 failed, 2 wrong usage, 130 interrupted
    """


if __name__ == "__main__":
    main()
