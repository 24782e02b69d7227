"""``minikafka quota``: how much users, clients and addresses may use."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Final

import click

from .failure import CommandFailed
from .output import note, print_json, print_table
from .target import Target, assignments, client_command, connected

if TYPE_CHECKING:
    from minikafka_client import QuotaEntity

_KEYS: Final = (
    "producer_byte_rate",
    "consumer_byte_rate",
    "request_percentage",
    "controller_mutation_rate",
    "connection_creation_rate",
)
_DEFAULT: Final = "<default>"


def entity_options(function: Callable[..., Any]) -> Callable[..., Any]:
    """The options that say whose quotas are meant; the command gets an ``entity``."""
    for kind in ("ip", "client-id", "user"):
        named = click.option(f"--{kind}", metavar="NAME", help=f"The {kind} of this name.")
        default = click.option(
            f"--default-{kind}",
            is_flag=True,
            help=f"Every {kind} without a quota of its own.",
        )
        function = named(default(function))
    return function


def _entity(names: dict[str, Any]) -> QuotaEntity:
    """Take the options of `entity_options` out of a command's arguments."""
    from minikafka_client import DEFAULT_ENTITY, QuotaEntity

    parts: dict[str, str | None] = {}
    for field in ("user", "client_id", "ip"):
        name, is_default = names.pop(field), names.pop(f"default_{field}")
        option = field.replace("_", "-")
        if name is not None and is_default:
            raise click.UsageError(f"use --{option} or --default-{option}, not both")
        if name == "":
            raise click.UsageError(f"--{option} has no name; the default is --default-{option}")
        parts[field] = DEFAULT_ENTITY if is_default else name
    entity = QuotaEntity(**parts)
    if entity.ip is not None and (entity.user is not None or entity.client_id is not None):
        raise click.UsageError("a quota of an ip cannot be for a user or a client-id, too")
    return entity


def _required(names: dict[str, Any]) -> QuotaEntity:
    entity = _entity(names)
    if not any(part is not None for part in entity):
        raise click.UsageError(
            "whose quota? Give --user, --client-id, --ip, or one of the --default options"
        )
    return entity


@click.group("quota")
def command() -> None:
    r"""Limit how much users, clients and addresses may use.

    \b
    What can be limited, for each broker (controller mutations: for the cluster):
      producer_byte_rate         bytes per second that are produced
      consumer_byte_rate         bytes per second that are fetched
      request_percentage         percent of one processor's time for requests
      controller_mutation_rate   partitions per second that are created or deleted
      connection_creation_rate   connections per second of an --ip

    Of several quotas that a client falls under the most specific one counts: one of a user with a
    client id before one of the user, that before one of the client id.
    """


@command.command("set")
@click.argument("limits", nargs=-1, required=True, metavar="QUOTA=LIMIT...")
@entity_options
@client_command
async def set_quotas(target: Target, limits: tuple[str, ...], **names: Any) -> None:
    r"""Set quotas of a user, a client id, both together, or an address.

    \b
    Examples:
      minikafka quota set --user alice producer_byte_rate=1048576
      minikafka quota set --default-client-id consumer_byte_rate=1e6 request_percentage=50
      minikafka quota set --default-ip connection_creation_rate=20
    """
    entity = _required(names)
    wanted = {key: _limit(key, text) for key, text in assignments("QUOTA=LIMIT", limits)}
    async with connected(target) as admin:
        await admin.alter_client_quotas({entity: wanted})
    _report(target, f"set for {entity}", sorted(wanted))


def _limit(key: str, text: str) -> float:
    if key not in _KEYS:
        raise click.UsageError(f"there is no quota {key!r}; use one of {', '.join(_KEYS)}")
    try:
        value = float(text)
    except ValueError:
        raise click.UsageError(f"{key} takes a number, not {text!r}") from None
    if not value > 0:
        raise click.UsageError(f"{key} must be greater than 0, not {text}")
    return value


@command.command("remove")
@click.argument("keys", nargs=-1, metavar="[QUOTA]...")
@entity_options
@client_command
async def remove_quotas(target: Target, keys: tuple[str, ...], **names: Any) -> None:
    r"""Remove quotas of a user, a client id, both together, or an address: all, or those named.

    \b
    Examples:
      minikafka quota remove --user alice
      minikafka quota remove --default-client-id consumer_byte_rate
    """
    entity = _required(names)
    async with connected(target) as admin:
        present = (await admin.describe_client_quotas(entity, strict=True)).get(entity, {})
        missing = [key for key in keys if key not in present]
        if missing or not present:
            what = f"no {missing[0]}" if missing else "no quota"
            raise CommandFailed(
                f"there is {what} for {entity}; `minikafka quota list` shows what there is"
            )
        removed = sorted(keys or present)
        await admin.alter_client_quotas({entity: dict.fromkeys(removed)})
    _report(target, f"removed for {entity}", removed)


def _report(target: Target, what: str, keys: list[str]) -> None:
    if target.as_json:
        print_json({"quotas": keys})
    else:
        note(f"{', '.join(keys)}: {what}")


@command.command("list")
@entity_options
@client_command
async def list_quotas(target: Target, **names: Any) -> None:
    r"""List quotas: all, or those of a user, a client id or an address.

    \b
    Examples:
      minikafka quota list
      minikafka quota list --user alice
    """
    entity = _entity(names)
    async with connected(target) as admin:
        found = await admin.describe_client_quotas(entity)
    rows = sorted(found.items(), key=lambda item: tuple(part or "" for part in item[0]))
    if target.as_json:
        print_json(
            {
                "quotas": [
                    {
                        **{
                            kind: name or None
                            for kind, name in one._asdict().items()
                            if name is not None
                        },
                        "limits": limits,
                    }
                    for one, limits in rows
                ]
            }
        )
        return
    print_table(
        ["USER", "CLIENT-ID", "IP", "QUOTA", "LIMIT"],
        [
            [*(_DEFAULT if name == "" else name for name in one), key, f"{limit:.15g}"]
            for one, limits in rows
            for key, limit in sorted(limits.items())
        ],
    )
