"""`minikafka lab web` serves its folder, nothing else, and ends with Ctrl-C."""

from __future__ import annotations

import os
import signal
import tempfile
import threading
import webbrowser
from http.client import HTTPConnection
from pathlib import Path
from urllib.parse import urlsplit

import pytest
from click.testing import CliRunner

from minikafka.cli.main import main
from minikafka.lab import web_command

FILES = {"index.html": "text/html", "worker.js": "text/javascript", "it.wasm": "application/wasm"}
OUTSIDE = ("/../secret", "/%2e%2e/secret", "/x/../../secret", "//../secret")


def test_it_serves_its_folder_until_ctrl_c(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    (tmp_path / "secret").write_text("secret")
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    found: dict[str, tuple[int, str, bytes]] = {}

    def build(folder: Path, _: Path | None) -> None:
        for name in FILES:
            (folder / name).write_text(name)

    def ask(host: str) -> None:
        try:
            for path in ("/", *(f"/{name}" for name in FILES), *OUTSIDE):
                connection = HTTPConnection(host, timeout=60)
                connection.request("GET", path)
                answer = connection.getresponse()
                kind = answer.getheader("Content-Type", "").partition(";")[0]
                found[path] = answer.status, kind, answer.read()
                connection.close()
        finally:
            os.kill(os.getpid(), signal.SIGINT)

    def browse(address: str) -> bool:
        threading.Thread(target=ask, args=[urlsplit(address).netloc]).start()
        return True

    monkeypatch.setattr(web_command, "build_site", build)
    monkeypatch.setattr(webbrowser, "open", browse)
    result = CliRunner().invoke(main, ["lab", "web", "--port", "0"])
    assert result.exit_code == 0, result.output
    assert "ready: http://127.0.0.1:" in result.stdout
    assert "stopped" in result.stderr
    assert found["/"] == (200, "text/html", b"index.html")
    for name, kind in FILES.items():
        assert found[f"/{name}"] == (200, kind, name.encode())
    assert {found[path][0] for path in OUTSIDE} == {404}
    assert [*tmp_path.iterdir()] == [tmp_path / "secret"]
