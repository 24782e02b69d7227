"""Headless Chromium, driven over the DevTools protocol, to test pages.

The protocol goes through one socket that is the browser's file descriptors 3 and 4: no port, and no
library. A page that asks for anything but its own file is noticed (`Page.requested`), and so is
everything that it writes to its console (`Page.console`).
"""

from __future__ import annotations

import base64
import json
import shutil
import socket
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

ANSWER_TIMEOUT_S = 60.0
_OPTIONS = [
    "--headless",
    "--no-sandbox",
    "--disable-gpu",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--disable-dev-shm-usage",
    "--disable-extensions",
    "--hide-scrollbars",
    "--remote-debugging-pipe",
]
_INHERIT = """
import fcntl, os, sys
own = fcntl.fcntl(int(sys.argv[1]), fcntl.F_DUPFD, 10)
os.dup2(own, 3)
os.dup2(own, 4)
os.close(own)
os.execvp(sys.argv[2], sys.argv[2:])
"""

Message = dict[str, Any]


def find_chromium() -> str | None:
    """The browser's program; None if this machine has none."""
    names = ("chromium", "chromium-browser", "google-chrome")
    return next((path for path in map(shutil.which, names) if path), None)


class Page:
    """A tab.

    Attributes:
        console: what the file that is open has written there, uncaught errors too.
        requested: every address that it has asked for, its own among them.
    """

    def __init__(self, channel: socket.socket) -> None:
        self.console: list[str] = []
        self.requested: list[str] = []
        self._channel = channel
        self._buffer = b""
        self._number = 0
        self._session: str | None = None
        self._events: list[Message] = []

    def attach(self) -> None:
        """Open a tab."""
        target = self.call("Target.createTarget", url="about:blank")["targetId"]
        found = self.call("Target.attachToTarget", targetId=target, flatten=True)
        self._session = found["sessionId"]
        for domain in ("Page", "Runtime", "Network", "Log"):
            self.call(f"{domain}.enable")

    def open(self, file: Path) -> None:
        """Show a file, and wait until it has loaded."""
        for noted in (self._events, self.console, self.requested):
            noted.clear()
        self.call("Page.navigate", url=file.as_uri())
        self._wait_for("Page.loadEventFired")

    def size(self, width: int, height: int, *, scale: float = 1) -> None:
        """Set the size of the window, in CSS pixels."""
        self.call(
            "Emulation.setDeviceMetricsOverride",
            width=width,
            height=height,
            deviceScaleFactor=scale,
            mobile=False,
        )

    def prefer(self, **features: str) -> None:
        """Set media features, such as ``prefers_color_scheme="dark"``."""
        pairs = [
            {"name": name.replace("_", "-"), "value": value} for name, value in features.items()
        ]
        self.call("Emulation.setEmulatedMedia", features=pairs)

    def evaluate(self, script: str) -> Any:
        """The value of an expression of JavaScript, once it is settled.

        Raises:
            AssertionError: it threw something.
        """
        found = self.call(
            "Runtime.evaluate", expression=script, returnByValue=True, awaitPromise=True
        )
        if "exceptionDetails" in found:
            raise AssertionError(f"{script}: {found['exceptionDetails']}")
        return found["result"].get("value")

    def press(self, key: str, *, shift: bool = False) -> None:
        """Press and release a key, named as in ``KeyboardEvent.key``."""
        codes = {"ArrowLeft": 37, "ArrowRight": 39, "ArrowDown": 40, "Home": 36, "End": 35}
        codes |= {"Enter": 13, "Tab": 9, "Escape": 27, " ": 32}
        detail: Message = {"key": key, "code": "Space" if key == " " else key}
        detail |= {"windowsVirtualKeyCode": codes[key], "modifiers": 8 if shift else 0}
        text = {"Enter": "\r", " ": " "}.get(key)
        down = {"type": "keyDown", "text": text} if text else {"type": "rawKeyDown"}
        self.call("Input.dispatchKeyEvent", **down, **detail)
        self.call("Input.dispatchKeyEvent", type="keyUp", **detail)

    def screenshot(self, file: Path, *, whole: bool = False) -> None:
        """Write what it shows as PNG."""
        found = self.call("Page.captureScreenshot", format="png", captureBeyondViewport=whole)
        file.write_bytes(base64.b64decode(found["data"]))

    def call(self, method: str, **params: object) -> Message:
        """Send a command and wait for its answer.

        Raises:
            AssertionError: the browser refused it.
        """
        self._number += 1
        message: Message = {"id": self._number, "method": method, "params": params}
        if self._session is not None:
            message["sessionId"] = self._session
        self._channel.sendall(json.dumps(message).encode() + b"\0")
        while True:
            answer = self._receive()
            if answer.get("id") == self._number:
                if "error" in answer:
                    raise AssertionError(f"{method}: {answer['error']}")
                result: Message = answer["result"]
                return result

    def _wait_for(self, method: str) -> None:
        while not any(event["method"] == method for event in self._events):
            self._receive()

    def _receive(self) -> Message:
        while b"\0" not in self._buffer:
            chunk = self._channel.recv(1 << 20)
            if not chunk:
                raise AssertionError("the browser has ended")
            self._buffer += chunk
        text, _, self._buffer = self._buffer.partition(b"\0")
        message: Message = json.loads(text)
        if "method" in message:
            self._note(message)
        return message

    def _note(self, event: Message) -> None:
        self._events.append(event)
        params = event["params"]
        match event["method"]:
            case "Network.requestWillBeSent":
                self.requested.append(params["request"]["url"])
            case "Runtime.consoleAPICalled":
                words = [one.get("value", one.get("description")) for one in params["args"]]
                self.console.append(" ".join(map(str, words)))
            case "Runtime.exceptionThrown":
                details = params["exceptionDetails"]
                self.console.append(details.get("exception", details).get("description", ""))
            case "Log.entryAdded":
                self.console.append(params["entry"]["text"])
            case _:
                pass


@contextmanager
def browser(program: str, profile: Path) -> Iterator[Page]:
    """Run the browser with one tab.

    Args:
        program: of `find_chromium`.
        profile: a new folder for what it writes.
    """
    ours, its = socket.socketpair()
    ours.settimeout(ANSWER_TIMEOUT_S)
    words = [program, *_OPTIONS, f"--user-data-dir={profile}", "about:blank"]
    process = subprocess.Popen(
        [sys.executable, "-c", _INHERIT, str(its.fileno()), *words],
        pass_fds=[its.fileno()],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    its.close()
    try:
        page = Page(ours)
        page.attach()
        yield page
        ours.sendall(json.dumps({"id": 0, "method": "Browser.close"}).encode() + b"\0")
        process.wait(ANSWER_TIMEOUT_S)
    finally:
        if process.poll() is None:
            process.kill()
        process.wait()
        ours.close()
