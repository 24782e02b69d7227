"""The interface of a load process: a job on stdin, and its outcome on stdout, as JSON."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from dataclasses import asdict
from typing import Any, TypeVar

Job = TypeVar("Job")


def serve_one_job(job_type: Callable[..., Job], work: Callable[[Job], Any]) -> None:
    """Do the job on stdin with ``work``, which returns a dataclass."""
    print(json.dumps(asdict(work(job_type(**json.load(sys.stdin))))))
