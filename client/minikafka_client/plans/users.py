"""Plans for the users that log in with SCRAM (KIP-554)."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Final

from minikafka.protocol.messages import (
    alter_user_scram_credentials as alter_api,
)
from minikafka.protocol.messages import (
    describe_user_scram_credentials as describe_api,
)
from minikafka_client.core.cluster import Cluster
from minikafka_client.errors import KafkaError, broker_error
from minikafka_client.plans.plan import ANY_BROKER, Call, Plan, call
from minikafka_client.plans.rounds import at_controller, in_rounds, outcome_of
from minikafka_client.types import ScramDeletion, ScramMechanismName, ScramUpsertion

_NUMBERS: Final[dict[ScramMechanismName, int]] = {"SCRAM-SHA-256": 1, "SCRAM-SHA-512": 2}
_NAMES: Final[dict[int, ScramMechanismName]] = {number: name for name, number in _NUMBERS.items()}

Alteration = ScramUpsertion | ScramDeletion


def alter_user_scram_credentials(
    cluster: Cluster, alterations: Iterable[ScramUpsertion | ScramDeletion]
) -> Plan[None]:
    """Set and delete credentials of users, in order; those of different users at once.

    Raises:
        BrokerError: the only alteration was refused (RESOURCE_NOT_FOUND: there is no such
            credential to delete, UNACCEPTABLE_CREDENTIAL, ...).
        SomeFailedError: some of several were refused.
    """
    # A request may name a user only once.
    waiting = list(alterations)
    while waiting:
        first: dict[str, Alteration] = {}
        later = [one for one in waiting if first.setdefault(one.user, one) is not one]
        yield from _alter(cluster, first)
        waiting = later


def _alter(cluster: Cluster, by_user: Mapping[str, Alteration]) -> Plan[None]:
    def make_call(node: int, users: Sequence[str]) -> Call:
        wanted = [by_user[user] for user in users]
        request = alter_api.Request(
            deletions=[
                alter_api.ScramCredentialDeletion(name=one.user, mechanism=_NUMBERS[one.mechanism])
                for one in wanted
                if isinstance(one, ScramDeletion)
            ],
            upsertions=[
                alter_api.ScramCredentialUpsertion(
                    name=one.user,
                    mechanism=_NUMBERS[one.mechanism],
                    iterations=one.iterations,
                    salt=one.salt,
                    salted_password=one.salted_password,
                )
                for one in wanted
                if isinstance(one, ScramUpsertion)
            ],
        )
        return Call(node, request)

    def read(response: alter_api.Response) -> Mapping[str, KafkaError | None]:
        return {
            one.user: outcome_of(None, one.error_code, f"user {one.user!r}", one.error_message)
            for one in response.results
        }

    yield from in_rounds(
        by_user,
        lambda users: at_controller(cluster, users, make_call, alter_api.Response, read),
    )


def describe_user_scram_credentials(
    cluster: Cluster, users: Iterable[str] | None = None
) -> Plan[dict[str, dict[ScramMechanismName, int]]]:
    """Say which credentials users have (None: all users), and with how many iterations.

    Raises:
        BrokerError: the only user asked for has none (RESOURCE_NOT_FOUND).
        SomeFailedError: some of several users have none.
    """
    del cluster
    if users is not None:
        asked = list(dict.fromkeys(users))
        return (yield from in_rounds(asked, _describe)) if asked else {}
    everything = yield from in_rounds([None], lambda _keys: _describe_all())
    return everything[None]


def _describe_all() -> Plan[Mapping[None, dict[str, dict[ScramMechanismName, int]] | KafkaError]]:
    answer = yield from call(ANY_BROKER, describe_api.Request(users=None), describe_api.Response)
    if answer.error_code:
        return {None: broker_error(answer.error_code, "users", answer.error_message)}
    found = [one for one in answer.results if not one.error_code]
    return {None: {one.user: _credentials(one) for one in found}}


def _describe(
    users: Sequence[str],
) -> Plan[Mapping[str, dict[ScramMechanismName, int] | KafkaError]]:
    names = [describe_api.UserName(name=user) for user in users]
    answer = yield from call(ANY_BROKER, describe_api.Request(users=names), describe_api.Response)
    if answer.error_code:
        refusal = broker_error(answer.error_code, "users", answer.error_message)
        return dict.fromkeys(users, refusal)
    return {
        one.user: outcome_of(
            _credentials(one), one.error_code, f"user {one.user!r}", one.error_message
        )
        for one in answer.results
    }


def _credentials(result: describe_api.Result) -> dict[ScramMechanismName, int]:
    """Iterations by mechanism; one that this client does not know is left out."""
    return {
        _NAMES[one.mechanism]: one.iterations
        for one in result.credential_infos
        if one.mechanism in _NAMES
    }
