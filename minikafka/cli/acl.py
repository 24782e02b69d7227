"""``minikafka acl``: add, list, remove."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from itertools import product
from typing import TYPE_CHECKING, Any, Final, NamedTuple, TypeVar

import click

from .failure import CommandFailed
from .output import note, print_json, print_table
from .target import Target, client_command, connected

if TYPE_CHECKING:
    from minikafka_client import Acl

_OPERATIONS: Final = (
    "all",
    "read",
    "write",
    "create",
    "delete",
    "alter",
    "describe",
    "cluster-action",
    "describe-configs",
    "alter-configs",
    "idempotent-write",
    "create-tokens",
    "describe-tokens",
    "two-phase-commit",
)
_CLUSTER_NAME: Final = "kafka-cluster"
_F = TypeVar("_F", bound=Callable[..., Any])


class _Resources(NamedTuple):
    """The resources that the options name: kinds as Kafka's enumeration calls them, and names."""

    topics: tuple[str, ...]
    groups: tuple[str, ...]
    transactional_ids: tuple[str, ...]
    cluster: bool

    def named(self) -> Iterator[tuple[str, str]]:
        yield from (("TOPIC", name) for name in self.topics)
        yield from (("GROUP", name) for name in self.groups)
        yield from (("TRANSACTIONAL_ID", name) for name in self.transactional_ids)
        if self.cluster:
            yield "CLUSTER", _CLUSTER_NAME


class _Rules(NamedTuple):
    """What the options say about rules.

    Attributes:
        operations: empty if none is named.
        principals: with DENY or ALLOW; a principal may have both.
    """

    resources: _Resources
    pattern: str
    principals: tuple[tuple[str, str], ...]
    hosts: tuple[tuple[str, str], ...]
    operations: tuple[str, ...]
    for_producer: bool
    for_consumer: bool
    is_idempotent: bool


def _rule_options(function: _F) -> _F:
    """The options by which kafka-acls names rules, too."""
    for option in reversed(
        (
            click.option("--topic", "topics", multiple=True, metavar="NAME", help="A topic, or *."),
            click.option("--group", "groups", multiple=True, metavar="NAME", help="A group, or *."),
            click.option(
                "--transactional-id",
                "transactional_ids",
                multiple=True,
                metavar="NAME",
                help="A transactional id, or *.",
            ),
            click.option("--cluster", is_flag=True, help="The cluster itself."),
            click.option(
                "--resource-pattern-type",
                "pattern",
                type=click.Choice(["literal", "prefixed", "match", "any"]),
                help="Whether names are prefixes; list and remove also take match and any.",
            ),
            click.option(
                "--allow-principal", "allowed", multiple=True, metavar="TYPE:NAME", help="Who may."
            ),
            click.option(
                "--deny-principal",
                "denied",
                multiple=True,
                metavar="TYPE:NAME",
                help="Who may not.",
            ),
            click.option(
                "--allow-host", "allow_hosts", multiple=True, metavar="ADDRESS", help="From where."
            ),
            click.option(
                "--deny-host",
                "deny_hosts",
                multiple=True,
                metavar="ADDRESS",
                help="From where not.",
            ),
            click.option(
                "--operation",
                "operations",
                multiple=True,
                type=click.Choice(_OPERATIONS, case_sensitive=False),
                metavar="NAME",
                help=f"What is done: {', '.join(_OPERATIONS)}.",
            ),
            click.option(
                "--producer",
                "for_producer",
                is_flag=True,
                help="What a producer needs: write, describe and create of topics.",
            ),
            click.option(
                "--consumer",
                "for_consumer",
                is_flag=True,
                help="What a consumer needs: read and describe of topics, read of groups.",
            ),
            click.option(
                "--idempotent",
                "is_idempotent",
                is_flag=True,
                help="With --producer: idempotent-write of the cluster as well.",
            ),
        )
    ):
        function = option(function)
    return function


def _rules(options: dict[str, Any]) -> _Rules:
    taken = {name: options[name] for name in ("topics", "groups", "transactional_ids", "cluster")}
    principals = [(one, "ALLOW") for one in options["allowed"]]
    principals += [(one, "DENY") for one in options["denied"]]
    for principal, _ in principals:
        kind, colon, name = principal.partition(":")
        if not (kind and colon and name):
            raise click.UsageError(f"a principal is TYPE:NAME, as in User:alice, not {principal!r}")
    hosts = [(one, "ALLOW") for one in options["allow_hosts"]]
    hosts += [(one, "DENY") for one in options["deny_hosts"]]
    return _Rules(
        _Resources(**taken),
        options["pattern"] or "",
        tuple(principals),
        tuple(hosts),
        tuple(one.lower() for one in options["operations"]),
        options["for_producer"],
        options["for_consumer"],
        options["is_idempotent"],
    )


@click.group("acl")
def command() -> None:
    r"""Say who may do what: access control lists.

    The options are those of Kafka's kafka-acls. The broker needs an authorizer:

    \b
      minikafka serve --set authorizer.class.name=standard --set super.users=User:admin
    """


@command.command("add")
@_rule_options
@client_command
async def add(target: Target, **options: Any) -> None:
    r"""Add rules; those that exist stay.

    \b
    Examples:
      minikafka acl add --allow-principal User:alice --operation read --topic orders
      minikafka acl add --allow-principal User:etl --producer --topic etl- \
        --resource-pattern-type prefixed
      minikafka acl add --deny-principal User:bob --operation all --topic '*'
    """
    acls = list(dict.fromkeys(_to_add(_rules(options))))
    async with connected(target) as admin:
        await admin.create_acls(acls)
    if target.as_json:
        print_json({"added": [_document(one) for one in acls]})
    else:
        _print(acls)


def _to_add(rules: _Rules) -> Iterator[Acl]:
    from minikafka_client import Acl, AclOperation, AclPattern, AclPermission, AclResourceType

    if rules.pattern not in ("", "literal", "prefixed"):
        raise click.UsageError("--resource-pattern-type of a new rule is literal or prefixed")
    if not rules.principals:
        raise click.UsageError("name at least one --allow-principal or --deny-principal")
    wanted = list(_operations(rules))
    if not wanted:
        raise click.UsageError(
            "name what the rule is about: --topic, --group, --transactional-id or --cluster, and "
            "--operation, --producer or --consumer"
        )
    for (kind, name, operation), (principal, permission) in product(wanted, rules.principals):
        hosts = [host for host, for_permission in rules.hosts if for_permission == permission]
        is_prefix = rules.pattern == "prefixed" and kind != "CLUSTER"
        for host in hosts or ["*"]:
            yield Acl(
                AclResourceType[kind],
                name,
                principal,
                AclOperation[operation.replace("-", "_").upper()],
                AclPermission[permission],
                host,
                AclPattern.PREFIXED if is_prefix else AclPattern.LITERAL,
            )


def _operations(rules: _Rules) -> Iterator[tuple[str, str, str]]:
    """Resources and what is done to them."""
    resources = rules.resources
    if rules.for_producer or rules.for_consumer:
        if rules.operations:
            raise click.UsageError("--producer and --consumer say which operations they need")
        if not resources.topics or (rules.for_consumer and not resources.groups):
            raise click.UsageError("--producer needs --topic, --consumer --topic and --group")
        if any(permission == "DENY" for _, permission in rules.principals):
            raise click.UsageError("--producer and --consumer only take --allow-principal")
    if rules.for_producer:
        for name, operation in product(resources.topics, ("write", "describe", "create")):
            yield "TOPIC", name, operation
        for name, operation in product(resources.transactional_ids, ("write", "describe")):
            yield "TRANSACTIONAL_ID", name, operation
        if rules.is_idempotent:
            yield "CLUSTER", _CLUSTER_NAME, "idempotent-write"
    if rules.for_consumer:
        for name, operation in product(resources.topics, ("read", "describe")):
            yield "TOPIC", name, operation
        for name in resources.groups:
            yield "GROUP", name, "read"
    if not (rules.for_producer or rules.for_consumer):
        for (kind, name), operation in product(resources.named(), rules.operations):
            yield kind, name, operation


@command.command("list")
@_rule_options
@client_command
async def list_(target: Target, **options: Any) -> None:
    r"""List rules: all, or those that the options select.

    With --resource-pattern-type match these are the rules that apply to a resource.

    \b
    Examples:
      minikafka acl list
      minikafka acl list --topic orders --resource-pattern-type match
    """
    selected = _selected(_rules(options))
    async with connected(target) as admin:
        found = {acl: None for one in selected for acl in await admin.describe_acls(one)}
    acls = sorted(found)
    if target.as_json:
        print_json({"acls": [_document(one) for one in acls]})
    else:
        _print(acls)


@command.command("remove")
@_rule_options
@click.option("--yes", is_flag=True, help="Really; without it, only show what would be removed.")
@client_command
async def remove(target: Target, *, yes: bool, **options: Any) -> None:
    r"""Remove the rules that the options select.

    \b
    Examples:
      minikafka acl remove --topic orders --allow-principal User:alice --yes
    """
    rules = _rules(options)
    if not list(rules.resources.named()) and not rules.principals:
        raise click.UsageError(
            "say which rules: --topic, --group, --transactional-id, --cluster, --allow-principal "
            "or --deny-principal"
        )
    selected = _selected(rules)
    async with connected(target) as admin:
        if yes:
            found = await admin.delete_acls(selected)
            acls = sorted({acl for some in found.values() for acl in some})
        else:
            acls = sorted({acl for one in selected for acl in await admin.describe_acls(one)})
    if yes and not acls:
        raise CommandFailed("no rule is selected; `minikafka acl list` shows all")
    if target.as_json:
        print_json({"removed" if yes else "would_remove": [_document(one) for one in acls]})
        return
    _print(acls)
    if not yes:
        note("nothing was removed; add --yes to remove these")


def _selected(rules: _Rules) -> list[Any]:
    """Filters: one for each combination of what is named."""
    from minikafka_client import AclFilter, AclOperation, AclPattern, AclPermission, AclResourceType

    if rules.for_producer or rules.for_consumer or rules.is_idempotent:
        raise click.UsageError("--producer, --consumer and --idempotent are for `acl add`")
    resources: Sequence[tuple[str, str | None]] = list(rules.resources.named()) or [("ANY", None)]
    principals: Sequence[tuple[str | None, str]] = rules.principals or [(None, "ANY")]
    hosts: Sequence[str | None] = [host for host, _ in rules.hosts] or [None]
    operations = rules.operations or ("any",)
    return [
        AclFilter(
            AclResourceType[kind],
            name,
            principal,
            AclOperation[operation.replace("-", "_").upper()],
            AclPermission[permission],
            host,
            AclPattern[(rules.pattern or "any").upper()],
        )
        for (kind, name), (principal, permission), host, operation in product(
            resources, principals, hosts, operations
        )
    ]


def _document(acl: Acl) -> dict[str, str]:
    return {
        "resource_type": acl.resource_type.name.lower().replace("_", "-"),
        "resource_name": acl.resource_name,
        "pattern_type": acl.pattern.name.lower(),
        "principal": acl.principal,
        "host": acl.host,
        "operation": acl.operation.name.lower().replace("_", "-"),
        "permission": acl.permission.name.lower(),
    }


def _print(acls: Sequence[Acl]) -> None:
    documents = [_document(one) for one in acls]
    print_table(
        ["RESOURCE", "NAME", "PATTERN", "PRINCIPAL", "HOST", "OPERATION", "PERMISSION"],
        [list(one.values()) for one in documents],
    )
