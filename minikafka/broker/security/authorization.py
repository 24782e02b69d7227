"""Asks the authorizer what a client may do.

A broker without an authorizer has no `Authorization`, so it asks nothing. Otherwise
`minikafka.broker.handlers.access` says for each API what is asked.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import Final, Protocol

from ...metadata.setting_table import BrokerConfig
from ...metadata.settings import InvalidSettingError
from ...security.acl import CLUSTER_NAME, OPERATIONS_OF, Operation, ResourceType
from ...security.acl_index import AclIndex
from ...security.authorizer import StandardAuthorizer
from ...security.principal import BROKER, Principal

__all__ = ["Authorization", "Client", "authorizer_of"]

logger = logging.getLogger(__name__)

_SEPARATOR: Final = ";"


class Client(Protocol):
    """Who asks; a request's context is one."""

    @property
    def principal(self) -> Principal:
        """Who it is."""
        ...

    @property
    def client_host(self) -> str:
        """The address, as Kafka shows it: ``/127.0.0.1``."""
        ...


class Authorization:
    """What clients may do, by the rules as they are now.

    Args:
        authorizer: decides.
        rules: the rules as they are now.
    """

    __slots__ = ("_authorizer", "_rules")

    def __init__(self, authorizer: StandardAuthorizer, rules: Callable[[], AclIndex]) -> None:
        self._authorizer = authorizer
        self._rules = rules

    def allows(self, client: Client, operation: Operation, kind: ResourceType, name: str) -> bool:
        """Whether a client may do something to a resource, which need not exist.

        A refusal is logged when it is decided, not each time that it is given.
        """
        principal, rules = client.principal, self._rules()
        question = (principal, client.client_host[1:], operation, kind, name)
        decision = self._authorizer.remembered(rules, question)
        if decision is not None:
            return decision
        if principal == BROKER:
            return True
        decision = self._authorizer.decide(rules, question)
        if not decision:
            logger.info(
                "%s at %s may not %s %s %r",
                *(principal, client.client_host, operation.name, kind.name, name[:100]),
            )
        return decision

    def allows_for_cluster(self, client: Client, operation: Operation) -> bool:
        """Whether a client may do something to the cluster."""
        return self.allows(client, operation, ResourceType.CLUSTER, CLUSTER_NAME)

    def allows_for_any(self, client: Client, operation: Operation, kind: ResourceType) -> bool:
        """Whether a client may do something to at least one resource of a type."""
        return client.principal == BROKER or self._authorizer.decide_for_any(
            self._rules(), client.principal, client.client_host[1:], operation, kind
        )

    def operations_of(self, client: Client, kind: ResourceType, name: str) -> int:
        """What a client may do to a resource, as a bit field of operations (KIP-430)."""
        return sum(1 << one for one in OPERATIONS_OF[kind] if self.allows(client, one, kind, name))


def authorizer_of(config: BrokerConfig) -> StandardAuthorizer | None:
    """The authorizer that the settings ask for; None if they ask for none.

    Raises:
        InvalidSettingError: the settings contradict each other, or a super user is malformed.
    """
    if not config.authorizer_class_name:
        if config.super_users:
            raise InvalidSettingError(
                "super.users is set, but there is no authorizer, so that everybody may do "
                "everything; set authorizer.class.name=standard, or remove super.users"
            )
        return None
    try:
        super_users = frozenset(
            Principal.parse(text) for text in config.super_users.split(_SEPARATOR) if text.strip()
        )
    except ValueError as error:
        raise InvalidSettingError(
            f"super.users: {error}; separate several by {_SEPARATOR}"
        ) from None
    if not super_users and not config.allow_everyone_if_no_acl_found:
        logger.warning(
            "there is an authorizer and no super user: who cannot alter the cluster by an ACL that "
            "is already stored cannot make one; set super.users"
        )
    return StandardAuthorizer(super_users, allows_without_acl=config.allow_everyone_if_no_acl_found)
