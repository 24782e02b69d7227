"""``minikafka user``: the users that log in with SCRAM (KIP-554)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, cast

import click

from .output import print_json, print_table
from .passwords import (
    PASSWORD_VARIABLE,
    generated_password,
    password_from_environment,
    read_password_file,
)
from .target import Target, client_command, connected

if TYPE_CHECKING:
    from minikafka_client.types import ScramMechanismName

_MECHANISMS: Final = ("SCRAM-SHA-256", "SCRAM-SHA-512")
_ITERATIONS_MIN: Final = 4096
_ITERATIONS_MAX: Final = 16_384


@click.group("user")
def command() -> None:
    r"""Create, list and remove users that log in with SCRAM.

    They can log in with PLAIN, too, where it is enabled. Brokers of Apache Kafka take the same
    users. What they may do is another matter.

    \b
    The first user of a cluster is created when a broker starts:
      minikafka serve --user admin --password-file admin.password ...
    """


@command.command("add")
@click.argument("name")
@click.option(
    "--mechanism",
    "mechanisms",
    type=click.Choice(_MECHANISMS),
    multiple=True,
    help="How the user may log in; may be repeated.  [default: both]",
)
@click.option(
    "--password-file",
    metavar="FILE",
    help="Read the password from the first line of a file that only you can read; - is stdin.  "
    f"[default: the variable {PASSWORD_VARIABLE}, or ask]",
)
@click.option("--generate", is_flag=True, help="Make up a password and print it.")
@click.option(
    "--iterations",
    type=click.IntRange(_ITERATIONS_MIN, _ITERATIONS_MAX),
    default=_ITERATIONS_MIN,
    show_default=True,
    help="How often the password is hashed.",
)
@client_command
async def add(
    target: Target,
    name: str,
    mechanisms: tuple[str, ...],
    password_file: str | None,
    generate: bool,
    iterations: int,
) -> None:
    r"""Create a user, or change its password.

    \b
    Examples:
      minikafka user add alice
      minikafka user add alice --generate
      minikafka user add alice --password-file alice.password --mechanism SCRAM-SHA-512
    """
    from minikafka_client.sasl import scram_upsertion

    password = _password(password_file, generate=generate)
    chosen = cast("tuple[ScramMechanismName, ...]", mechanisms or _MECHANISMS)
    try:
        credentials = [
            scram_upsertion(name, password, one, iterations=iterations) for one in chosen
        ]
    except ValueError as error:
        raise click.UsageError(str(error)) from None
    async with connected(target) as admin:
        await admin.alter_user_scram_credentials(credentials)
    if target.as_json:
        document: dict[str, object] = {"user": name, "mechanisms": list(chosen)}
        print_json(document | ({"password": password} if generate else {}))
        return
    click.echo(f"user {name}: {', '.join(chosen)}")
    if generate:
        click.echo(f"password: {password}")


def _password(password_file: str | None, *, generate: bool) -> str:
    if generate and password_file is not None:
        raise click.UsageError("--generate and --password-file exclude each other")
    if generate:
        return generated_password()
    if password_file is not None:
        return read_password_file(password_file)
    found = password_from_environment()
    if found is not None:
        return found
    asked: str = click.prompt("Password", hide_input=True, confirmation_prompt=True, err=True)
    return asked


@command.command("list")
@client_command
async def list_users(target: Target) -> None:
    r"""List the users, and how they may log in.

    \b
    Example:
      minikafka user list
    """
    async with connected(target) as admin:
        users = await admin.describe_user_scram_credentials()
    if target.as_json:
        document = [{"user": user, "mechanisms": users[user]} for user in sorted(users)]
        print_json({"users": document})
        return
    print_table(
        ["USER", "MECHANISM", "ITERATIONS"],
        [
            [user, mechanism, iterations]
            for user in sorted(users)
            for mechanism, iterations in sorted(users[user].items())
        ],
    )


@command.command("remove")
@click.argument("name")
@click.option(
    "--mechanism",
    "mechanisms",
    type=click.Choice(_MECHANISMS),
    multiple=True,
    help="How the user may no longer log in; may be repeated.  [default: in no way]",
)
@client_command
async def remove(target: Target, name: str, mechanisms: tuple[str, ...]) -> None:
    r"""Remove a user. Connections that it has stay open.

    \b
    Example:
      minikafka user remove alice
    """
    from minikafka_client import ScramDeletion

    async with connected(target) as admin:
        has = (await admin.describe_user_scram_credentials([name]))[name]
        chosen = cast("tuple[ScramMechanismName, ...]", mechanisms or tuple(has))
        await admin.alter_user_scram_credentials([ScramDeletion(name, one) for one in chosen])
    if target.as_json:
        print_json({"user": name, "removed": list(chosen)})
        return
    click.echo(f"user {name}: removed {', '.join(chosen)}")
