"""A seed has to repeat its run, step by step, in any process."""

from __future__ import annotations

import os
import subprocess
import sys


def fingerprint_elsewhere(module: str, call: str) -> str:
    """The fingerprint of an outcome in a fresh process, whatever order its hashes give to sets.

    Args:
        module: where the function is.
        call: of the function.
    """
    code = f"import logging; logging.disable(); from {module} import *"
    return subprocess.run(
        [sys.executable, "-c", f"{code}; print({call}.fingerprint)"],
        env={**os.environ, "PYTHONHASHSEED": "4242"},
        capture_output=True,
        text=True,
        check=True,
        timeout=120,
    ).stdout.strip()
