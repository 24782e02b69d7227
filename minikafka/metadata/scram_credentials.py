"""SCRAM credentials in the metadata image, and the decisions about them (KIP-554)."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final, NamedTuple

from ..protocol.errors import ErrorCode
from ..security.scram import (
    ITERATIONS_MAX,
    ITERATIONS_MIN,
    ScramCredential,
    ScramMechanism,
    credential_of_salted_password,
    decoy_credential,
)
from .decision import Decision, Refusal
from .records import MetadataRecord, RemoveScramCredentialRecord, ScramCredentialRecord

__all__ = ["Deletion", "ScramCredentials", "Upsertion", "alter_scram_credentials"]

_MECHANISMS: Final = {one.value: one for one in ScramMechanism}


class ScramCredentials:
    """Credentials by user, and by mechanism; only `replay` changes them."""

    __slots__ = ("_users",)

    def __init__(self) -> None:
        self._users: dict[str, dict[int, ScramCredential]] = {}

    def __eq__(self, other: object) -> bool:
        return isinstance(other, ScramCredentials) and self._users == other._users

    __hash__ = None  # type: ignore[assignment]  # it changes

    def __len__(self) -> int:
        """How many users there are."""
        return len(self._users)

    def users(self) -> list[str]:
        return list(self._users)

    def of_user(self, user: str) -> dict[int, ScramCredential]:
        """A user's credentials by the mechanism's number; do not modify the result."""
        return self._users.get(user, {})

    def find(self, mechanism: ScramMechanism, user: str) -> ScramCredential:
        """A user's credential, or a decoy, which stays the same while the first user does."""
        found = self.of_user(user).get(mechanism.value)
        return found or decoy_credential(mechanism, user, self._decoy_key())

    def find_any(self, user: str) -> tuple[ScramMechanism, ScramCredential]:
        """A user's credential of any mechanism, or a decoy; for passwords that came in full."""
        for number, credential in self.of_user(user).items():
            if number in _MECHANISMS:
                return _MECHANISMS[number], credential
        mechanism = ScramMechanism.SCRAM_SHA_256
        return mechanism, self.find(mechanism, user)

    def _decoy_key(self) -> bytes:
        """What all brokers know and nobody else; without users there is nothing to hide."""
        for credentials in self._users.values():
            for credential in credentials.values():
                return credential.server_key
        return b"nobody"

    def replay(self, record: ScramCredentialRecord | RemoveScramCredentialRecord) -> None:
        """Apply a record; removing what is not there changes nothing."""
        mine = dict(self.of_user(record.user))
        if isinstance(record, ScramCredentialRecord):
            mine[record.mechanism] = ScramCredential(
                record.salt, record.stored_key, record.server_key, record.iterations
            )
        else:
            mine.pop(record.mechanism, None)
        if mine:
            self._users[record.user] = mine
        else:
            self._users.pop(record.user, None)

    def records(self) -> Iterator[ScramCredentialRecord]:
        """A snapshot."""
        for user, credentials in self._users.items():
            for mechanism, credential in credentials.items():
                yield ScramCredentialRecord(user, mechanism, *credential)


class Deletion(NamedTuple):
    """A request to delete a credential."""

    user: str
    mechanism: int


class Upsertion(NamedTuple):
    """A request to set a credential."""

    user: str
    mechanism: int
    iterations: int
    salt: bytes
    salted_password: bytes


def alter_scram_credentials(
    credentials: ScramCredentials, alterations: Sequence[Deletion | Upsertion]
) -> Decision[dict[str, Refusal | None]]:
    """Decide about a request: deletions first, then upsertions; users' results are independent."""
    refusals: dict[str, Refusal] = {}
    accepted: dict[str, MetadataRecord] = {}
    for one in alterations:
        if one.user in refusals:
            continue
        if accepted.pop(one.user, None) is not None:
            message = "A user credential cannot be altered twice in the same request"
            refusals[one.user] = Refusal(ErrorCode.DUPLICATE_RESOURCE, message)
        elif (refusal := _refusal(credentials, one)) is not None:
            refusals[one.user] = refusal
        else:
            accepted[one.user] = _record(one)
    return Decision(list(accepted.values()), {**dict.fromkeys(accepted), **refusals})


def _refusal(credentials: ScramCredentials, one: Deletion | Upsertion) -> Refusal | None:
    if not one.user:
        return Refusal(ErrorCode.UNACCEPTABLE_CREDENTIAL, "Username must not be empty")
    mechanism = _MECHANISMS.get(one.mechanism)
    if mechanism is None:
        return Refusal(ErrorCode.UNSUPPORTED_SASL_MECHANISM, "Unknown SCRAM mechanism")
    if isinstance(one, Deletion):
        if one.mechanism not in credentials.of_user(one.user):
            message = "Attempt to delete a user credential that does not exist"
            return Refusal(ErrorCode.RESOURCE_NOT_FOUND, message)
        return None
    if one.iterations < ITERATIONS_MIN:
        return Refusal(ErrorCode.UNACCEPTABLE_CREDENTIAL, "Too few iterations")
    if one.iterations > ITERATIONS_MAX:
        return Refusal(ErrorCode.UNACCEPTABLE_CREDENTIAL, "Too many iterations")
    if not one.salt or not one.salted_password:
        message = "The salt and the salted password must not be empty"
        return Refusal(ErrorCode.UNACCEPTABLE_CREDENTIAL, message)
    return None


def _record(one: Deletion | Upsertion) -> MetadataRecord:
    if isinstance(one, Deletion):
        return RemoveScramCredentialRecord(one.user, one.mechanism)
    credential = credential_of_salted_password(
        _MECHANISMS[one.mechanism], one.salted_password, one.salt, one.iterations
    )
    return ScramCredentialRecord(one.user, one.mechanism, *credential)
