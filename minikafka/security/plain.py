"""PLAIN (RFC 4616): the client sends its password. The server side."""

from __future__ import annotations

import hmac
from collections.abc import Callable, Mapping
from typing import Final

from .mechanisms import Check, Denied, Granted, Step, Verdict
from .scram import ScramCredential, ScramMechanism, password_matches

__all__ = ["PLAIN", "PlainServer"]

PLAIN: Final = "PLAIN"

_WRONG: Final = "Authentication failed: Invalid username or password"
_OTHER_AUTHORIZATION_ID: Final = (
    "Authentication failed: Client requested an authorization id that is different from username"
)


class PlainServer:
    """Checks a name and a password.

    A name in ``users`` has that password. Otherwise the password of the user's SCRAM credentials
    counts, which is hashed as slowly as for SCRAM, whether there are any or not.

    Args:
        users: passwords by name, as a listener's JAAS configuration has them.
        find: the SCRAM mechanism and credential of a user that ``users`` does not have; of a user
            without one, credentials that no password matches. None if only ``users`` count.
    """

    def __init__(
        self,
        users: Mapping[str, str],
        find: Callable[[str], tuple[ScramMechanism, ScramCredential]] | None = None,
    ) -> None:
        self._users = users
        self._find = find

    def step(self, token: bytes) -> Step:
        try:
            parts = token.decode().split("\0", 3)
        except UnicodeDecodeError:
            return Denied("the PLAIN token is not UTF-8")
        if len(parts) != 3:
            message = f"Invalid SASL/PLAIN response: expected 3 tokens, got {len(parts)}"
            return Denied(message, message)
        authorization_id, username, password = parts
        if not username:
            return _denied("Authentication failed: username not specified")
        if not password:
            return _denied("Authentication failed: password not specified")
        expected = self._users.get(username)
        if expected is None and self._find is not None:
            mechanism, credential = self._find(username)
            return Check(
                lambda: _verdict(
                    authorization_id,
                    username,
                    is_right=password_matches(mechanism, credential, password),
                )
            )
        # A name that is not there takes as long as a wrong password.
        is_right = hmac.compare_digest((expected or "\0").encode(), password.encode())
        return _verdict(authorization_id, username, is_right=is_right and expected is not None)


def _verdict(authorization_id: str, username: str, *, is_right: bool) -> Verdict:
    if not is_right:
        return _denied(_WRONG)
    if authorization_id not in ("", username):
        return _denied(_OTHER_AUTHORIZATION_ID)
    return Granted(username)


def _denied(message: str) -> Denied:
    return Denied(message, message)
