"""Headless Chromium, driven through the DevTools protocol over a small websocket."""

import base64
import json
import os
import re
import shutil
import socket
import subprocess
from pathlib import Path
from typing import Any

NAMES = ("chromium", "chromium-browser", "google-chrome")
ADDRESS = re.compile(r"ws://127\.0\.0\.1:(\d+)(/\S+)")


def executable() -> str | None:
    """Path of an installed Chromium."""
    return next(filter(None, map(shutil.which, NAMES)), None)


class Browser:
    """A browser with one page; console messages and requests are collected."""

    def __init__(self, program: str, folder: Path, *flags: str):
        # Root needs --no-sandbox; the page is our own.
        command = [program, "--headless", "--no-sandbox", "--disable-gpu", *flags,
                   "--remote-debugging-port=0", f"--user-data-dir={folder}",
                   "--no-first-run", "--disable-background-networking",
                   "--hide-scrollbars", "about:blank"]  # fmt: skip
        self._process = subprocess.Popen(command, stderr=subprocess.PIPE, text=True)
        assert self._process.stderr is not None
        said = (ADDRESS.search(line) for line in self._process.stderr)
        port, path = next(found for found in said if found).groups()
        self._socket, self._count = _connect(int(port), path), 0
        self.messages: list[str] = []
        self.requests: list[str] = []
        target = self.call("Target.createTarget", url="about:blank")["targetId"]
        found = self.call("Target.attachToTarget", targetId=target, flatten=True)
        self._session = found["sessionId"]
        for name in ("Page", "Runtime", "Network", "Log"):
            self.call(f"{name}.enable")

    _session: str | None = None

    def call(self, method: str, **parameters: Any) -> dict[str, Any]:
        """Call a method of the protocol; events on the way are noted."""
        self._count += 1
        message = {"id": self._count, "method": method, "params": parameters}
        if self._session:
            message["sessionId"] = self._session
        _send(self._socket, json.dumps(message))
        while True:
            answer = json.loads(_receive(self._socket))
            if answer.get("id") == self._count:
                assert "error" not in answer, (method, answer["error"])
                return answer["result"]
            self._note(answer)

    def _note(self, event: dict[str, Any]) -> None:
        given = event.get("params", {})
        if event["method"] in ("Runtime.consoleAPICalled", "Runtime.exceptionThrown"):
            self.messages.append(json.dumps(given))
        if event["method"] == "Log.entryAdded":
            self.messages.append(given["entry"]["text"])
        if event["method"] == "Network.requestWillBeSent":
            self.requests.append(given["request"]["url"])

    def open(self, page: Path, width: int, height: int = 900) -> None:
        """Open a file in a window of this size, and wait until it is complete."""
        size = {"width": width, "height": height, "deviceScaleFactor": 1}
        self.call("Emulation.setDeviceMetricsOverride", **size, mobile=False)
        self.call("Page.navigate", url=page.resolve().as_uri())
        while self.run("document.readyState + location.protocol") != "completefile:":
            pass

    def run(self, script: str) -> Any:
        """Value of an expression in the page."""
        found = self.call("Runtime.evaluate", expression=script, returnByValue=True)
        assert "exceptionDetails" not in found, found["exceptionDetails"]
        return found["result"].get("value")

    def picture(self, path: Path) -> None:
        """Save the whole page as PNG."""
        found = self.call("Page.captureScreenshot", captureBeyondViewport=True)
        path.write_bytes(base64.b64decode(found["data"]))

    def close(self) -> None:
        """End the browser."""
        self._socket.close()
        self._process.terminate()
        self._process.wait()
        assert self._process.stderr is not None
        self._process.stderr.close()


def _connect(port: int, path: str) -> socket.socket:
    opened = socket.create_connection(("127.0.0.1", port), timeout=60)
    key = base64.b64encode(os.urandom(16)).decode()
    lines = [f"GET {path} HTTP/1.1", f"Host: 127.0.0.1:{port}", "Upgrade: websocket",
             "Connection: Upgrade", f"Sec-WebSocket-Key: {key}",
             "Sec-WebSocket-Version: 13", "", ""]  # fmt: skip
    opened.sendall("\r\n".join(lines).encode())
    answer = b""
    while not answer.endswith(b"\r\n\r\n"):
        answer += opened.recv(1)
    assert b" 101 " in answer, answer
    return opened


def _send(opened: socket.socket, text: str) -> None:
    """Send a text in one masked frame."""
    data, mask = text.encode(), os.urandom(4)
    length = len(data).to_bytes(8, "big")
    masked = bytes(byte ^ mask[k % 4] for k, byte in enumerate(data))
    opened.sendall(b"\x81" + bytes([0x80 | 127]) + length + mask + masked)


def _receive(opened: socket.socket) -> str:
    """Return the next message, which may have several frames."""
    message = b""
    while True:
        first, second = _exactly(opened, 2)
        length = second & 0x7F
        if length >= 126:
            length = int.from_bytes(_exactly(opened, 2 if length == 126 else 8), "big")
        data = _exactly(opened, length)
        if first & 0x0F in (0, 1, 2):
            message += data
            if first & 0x80:
                return message.decode()


def _exactly(opened: socket.socket, count: int) -> bytes:
    data = b""
    while len(data) < count:
        piece = opened.recv(count - len(data))
        assert piece, "Chromium closed the connection"
        data += piece
    return data
