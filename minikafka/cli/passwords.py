"""Where the passwords of users come from: a file, the environment, or the terminal.

Never from an argument, which everybody on the machine can read in the list of processes.
"""

from __future__ import annotations

import os
import secrets
import string
import sys
from typing import Final

import click

PASSWORD_VARIABLE: Final = "MINIKAFKA_PASSWORD"
_GENERATED_CHARACTERS: Final = 24
_SIZE_BYTES_MAX: Final = 4096


def read_password_file(path: str) -> str:
    """The first line of a file; ``-`` is stdin.

    Raises:
        click.UsageError: it cannot be read, is empty, or other users of this machine can read it.
    """
    from ..broker.security.key_material import check_private
    from ..metadata.settings import InvalidSettingError

    try:
        if path == "-":
            text = sys.stdin.readline(_SIZE_BYTES_MAX)
        else:
            check_private(path, "--password-file")
            with open(path, encoding="utf-8") as file:
                text = file.readline(_SIZE_BYTES_MAX)
    except InvalidSettingError as error:
        raise click.UsageError(str(error)) from None
    except (OSError, UnicodeDecodeError) as error:
        reason = getattr(error, "strerror", None) or "it is not UTF-8"
        raise click.UsageError(f"--password-file: cannot read {path}: {reason}") from None
    password = text.rstrip("\r\n")
    if not password or "\0" in password:
        raise click.UsageError(f"--password-file: the first line of {path} is no password")
    return password


def password_from_environment() -> str | None:
    return os.environ.get(PASSWORD_VARIABLE) or None


def generated_password() -> str:
    """One that nobody guesses, of letters and digits."""
    letters = string.ascii_letters + string.digits
    return "".join(secrets.choice(letters) for _ in range(_GENERATED_CHARACTERS))
