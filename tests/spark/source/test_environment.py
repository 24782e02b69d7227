"""The import is light, and a missing package is reported in one line."""

from __future__ import annotations

import subprocess
import sys
from importlib.metadata import version

import pytest

import pyspark_minikafka
from pyspark_minikafka import environment
from pyspark_minikafka.environment import check_packages, check_worker, connector_version
from pyspark_minikafka.errors import EnvironmentMismatchError

HEAVY = ("numpy", "pyarrow", "pandas", "minikafka_client", "minikafka", "ssl", "asyncio")


def imported_by(program: str) -> set[str]:
    show = f"{program}\nimport sys; print(*sys.modules)"
    run = [sys.executable, "-W", "ignore", "-c", show]
    return set(subprocess.run(run, capture_output=True, text=True, check=True).stdout.split())


def test_importing_the_package_imports_nothing_heavy() -> None:
    more = imported_by("import pyspark_minikafka") - imported_by("")
    assert not more.intersection((*HEAVY, "pyspark"))


def test_the_source_module_imports_only_spark() -> None:
    before = imported_by("import pyspark.sql.datasource, pyspark.sql.types")
    more = imported_by("from pyspark_minikafka import DefaultSource") - before
    assert {name for name in more if not name.startswith("pyspark")} == set()


def test_planning_a_read_imports_neither_the_sink_nor_the_modules_of_tasks() -> None:
    options = "{'kafka.bootstrap.servers': 'b:1', 'subscribe': 't'}"
    found = imported_by(
        "from pyspark_minikafka import DefaultSource\n"
        f"source = DefaultSource({options})\n"
        "source.reader(source.schema())\n"
        "source.streamReader(source.schema()).initialOffset()\n"
    )
    unwanted = (
        "minikafka_client.core.fetcher",
        "minikafka_client.core.sender",
        "minikafka_client.plans.transactions",
        "minikafka_client.sync.admin",
        "pyspark_minikafka.columns.decoder",
        "pyspark_minikafka.sink",
    )
    assert found.intersection(unwanted) == set()


def test_the_version_is_the_one_that_is_installed() -> None:
    assert connector_version() == version("minikafka")


def test_the_package_has_no_other_names() -> None:
    with pytest.raises(AttributeError, match="has no attribute 'Source'"):
        _ = pyspark_minikafka.Source


def test_a_missing_package_is_reported_with_the_interpreter(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(environment, "find_spec", lambda name: None if name == "pyarrow" else name)
    with pytest.raises(EnvironmentMismatchError) as caught:
        check_packages()
    assert str(caught.value).startswith(f"{sys.executable} has no pyarrow: run `")
    assert "PYSPARK_PYTHON" in str(caught.value)


def test_a_version_mismatch_is_reported_with_both_versions() -> None:
    check_worker(connector_version())
    with pytest.raises(EnvironmentMismatchError, match=r"the driver has minikafka 99\.0"):
        check_worker("99.0")
