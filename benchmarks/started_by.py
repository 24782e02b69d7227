"""Runs a command with the interpreter that runs this file, instead of the command's own first word.

Brokers under measurement are started by ``sys.executable``. With the words ``PYTHON started_by.py``
before their command, PYTHON runs them, as the same process. It must run under any Python, without
packages.
"""

from __future__ import annotations

import os
import sys

if __name__ == "__main__":
    os.execv(sys.executable, [sys.executable, *sys.argv[2:]])
