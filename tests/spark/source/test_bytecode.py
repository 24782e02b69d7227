"""Modules in a zip file are imported from the bytecode that was added."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from zipfile import ZipFile

import pytest

from pyspark_minikafka.bytecode import add_bytecode, main

PROGRAM = "import package.module as m; print(m.VALUE, m.__spec__.origin, m.f.__code__.co_filename)"


def printed(archive: Path) -> list[str]:
    run = [sys.executable, "-c", f"import sys; sys.path.insert(0, {str(archive)!r})\n{PROGRAM}"]
    return subprocess.run(run, capture_output=True, text=True, check=True).stdout.split()


@pytest.fixture
def archive(tmp_path: Path) -> Path:
    folder = tmp_path / "python" / "lib"
    folder.mkdir(parents=True)
    with ZipFile(folder / "some.zip", "w") as found:
        found.writestr("package/__init__.py", "")
        found.writestr("package/module.py", "VALUE = 7\ndef f(): ...\n")
        found.writestr("package/table.json", "{}")
    return folder / "some.zip"


def test_modules_are_imported_from_bytecode(archive: Path) -> None:
    before = printed(archive)
    assert before[0] == "7"
    assert before[1].endswith("module.py")
    for _ in range(2):  # a second time replaces the bytecode
        assert add_bytecode(archive) == 2
        after = printed(archive)
        assert after[0] == "7"
        assert after[1].endswith("module.pyc")
        assert after[2] == before[2]
    with ZipFile(archive) as found:
        names = found.namelist()
        assert found.read("package/table.json") == b"{}"
    assert len(names) == len(set(names)) == 5


def test_the_command_finds_the_archives_of_the_installation(
    archive: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("SPARK_HOME", str(archive.parents[2]))
    assert main() == 0
    assert capsys.readouterr().out == f"bytecode of 2 modules added to {archive}\n"
    monkeypatch.setenv("SPARK_HOME", str(archive.parent))
    assert main() == 1
    assert "has no python/lib/*.zip; set SPARK_HOME" in capsys.readouterr().err
