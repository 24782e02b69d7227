"""``minikafka lab``: the group of its commands, and what its help teaches."""

from __future__ import annotations

import click

from . import (
    fingerprints_command,
    replay_command,
    run_command,
    show_command,
    verify_command,
    web_command,
)


@click.group("lab")
def command() -> None:
    r"""See what each delivery guarantee loses and repeats.

    Articles say that acks=1 is at-least-once, that acks=all is exactly-once, that auto-commit loses
    records. The lab takes such sentences at their word, attacks them with thousands of seeds of a
    simulated cluster and with real processes that are killed, paused and cut off, counts what is
    lost, repeated and reordered, and stamps each sentence true or false. A run that shows it can be
    repeated from its seed.

    \b
    To get started:
      minikafka lab show                                the sentences, and our expectation
      minikafka lab run --quick --html lab.html         all of them in some minutes
      minikafka lab run --claim acks1-exactly-once      one of them
      minikafka lab replay SEED                         what happened in one run, step by step
      minikafka lab verify --bootstrap HOST:PORT        the same against any cluster
      minikafka lab web                                 in the browser: break it yourself
    """


for each in (
    run_command.command,
    show_command.command,
    replay_command.command,
    verify_command.command,
    web_command.command,
    fingerprints_command.command,
):
    command.add_command(each)
