"""A load process reads its job from stdin and prints what it measured, both as JSON objects."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from dataclasses import asdict
from typing import Any, TypeVar

Job = TypeVar("Job")


def serve_one_job(job_type: Callable[..., Job], work: Callable[[Job], Any]) -> None:
    """Do the job on stdin with ``work``, which returns a dataclass instance."""
    print(json.dumps(asdict(work(job_type(**json.load(sys.stdin))))))
