"""Where the secrets among a broker's settings may stand."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from pathlib import Path

logger = logging.getLogger(__name__)


def check_private_settings(
    text: str | None, assignments: Sequence[str], config_file: Path | None
) -> None:
    """Refuse a file with secrets that others can read, and warn of secrets on the command line.

    Raises:
        InvalidSettingError: others can read the file.
    """
    from ..broker.security.key_material import check_private
    from ..broker.settings.config import secrets_in

    if config_file is not None and secrets_in(text, ()):
        check_private(str(config_file), "--config")
    given = secrets_in(None, assignments)
    if given:
        logger.warning(
            "%s: other users can see the command line while this process runs; "
            "put secrets into a file that only its owner can read, and name it with --config",
            ", ".join(f"--set {name}" for name in given),
        )
