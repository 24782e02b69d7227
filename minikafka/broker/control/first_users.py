"""Users that ``minikafka serve`` is given: so that somebody can log in to a new cluster.

A user that has SCRAM credentials keeps them, because its password may have been changed since.
"""

from __future__ import annotations

import logging
import secrets
from collections.abc import Sequence
from functools import partial
from typing import NamedTuple, Protocol, cast

from ...metadata.image import MetadataImage
from ...protocol.errors import ErrorCode
from ...protocol.messages import alter_user_scram_credentials as alter_api
from ...security.scram import (
    ITERATIONS_DEFAULT,
    SALT_SIZE_BYTES,
    ScramMechanism,
    salted_password,
)
from ..quorum.change_error import ChangeError
from ..system.start_error import StartError
from ..system.workers import RunInThread
from .forwarder import Forwarder

__all__ = ["FirstUser", "create_first_users"]

logger = logging.getLogger(__name__)


class FirstUser(NamedTuple):
    """A user to create."""

    name: str
    password: str

    def __repr__(self) -> str:
        return f"FirstUser({self.name!r}, ...)"


class MetadataView(Protocol):
    """Access to the metadata image as of the last applied decision."""

    @property
    def image(self) -> MetadataImage: ...


async def create_first_users(
    users: Sequence[FirstUser],
    metadata: MetadataView,
    forwarder: Forwarder,
    run_in_thread: RunInThread,
) -> None:
    """Have the controller give users credentials of all mechanisms, if they have none.

    Raises:
        StartError: it refuses, or cannot be reached.
    """
    new = [one for one in users if not metadata.image.scram_credentials.of_user(one.name)]
    for mechanism in ScramMechanism if new else ():
        upsertions = [await run_in_thread(partial(_upsertion, mechanism, one)) for one in new]
        request = alter_api.Request(deletions=[], upsertions=upsertions)
        try:
            response = cast("alter_api.Response", await forwarder.request(request, 0))
        except ChangeError as error:
            raise StartError(f"cannot create users: {error}") from None
        for result in response.results:
            if result.error_code != ErrorCode.NONE:
                raise StartError(f"cannot create user {result.user!r}: {result.error_message}")
    for one in new:
        logger.info("created user %r", one.name)


def _upsertion(mechanism: ScramMechanism, user: FirstUser) -> alter_api.ScramCredentialUpsertion:
    salt = secrets.token_bytes(SALT_SIZE_BYTES)
    return alter_api.ScramCredentialUpsertion(
        name=user.name,
        mechanism=mechanism.value,
        iterations=ITERATIONS_DEFAULT,
        salt=salt,
        salted_password=salted_password(mechanism, user.password, salt, ITERATIONS_DEFAULT),
    )
