"""The jars of Spark's own connector, downloaded by Maven if it is installed."""

from __future__ import annotations

from ..processes import ROOT, ProcessFailedError


def jars() -> list[str]:
    """Their paths.

    Raises:
        ProcessFailedError: there is no Java or no Maven.
    """
    from tests.peers import java_runtime

    missing = java_runtime.missing()
    if missing is not None:
        raise ProcessFailedError(missing)
    folder = java_runtime.jars(ROOT / "tests" / "spark" / "oracle" / "pom.xml")
    return sorted(str(path) for path in folder.glob("*.jar"))
