"""A browser without a window, driven over the WebDriver protocol, as the screenshots need it."""

from __future__ import annotations

import base64
import http.client
import json
import shutil
import subprocess
import tempfile
import threading
import time
from pathlib import Path
from types import TracebackType
from typing import Any, Final, Self

__all__ = ["Browser"]

_ELEMENT: Final = "element-6066-11e4-a52e-4f735466cecf"  # the protocol's name for a reference
_DRIVER: Final = "chromedriver"
_FLAGS: Final = (
    "--headless",
    "--no-sandbox",
    "--disable-gpu",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--hide-scrollbars",
    "--lang=en",
)
_TOO_WIDE: Final = """
return [...document.querySelectorAll("html, body *")]
  .filter(each => each.clientWidth > 0 && each.scrollWidth > each.clientWidth + 1)
  .map(each => each.innerText.slice(0, 80))
"""
_WAIT_S: Final = 120.0
_POLL_S: Final = 0.2


class Browser:
    """Chromium with an empty profile, from entry to exit of a ``with`` block."""

    def __init__(self) -> None:
        self._profile = Path(tempfile.mkdtemp(prefix="trainfeed-browser-"))

    def __enter__(self) -> Self:
        self._driver = subprocess.Popen(  # noqa: S603 - a constant
            [_DRIVER, "--port=0"], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True
        )
        self._port = self._listening()
        options = {"args": [*_FLAGS, f"--user-data-dir={self._profile}"]}
        wanted = {"capabilities": {"alwaysMatch": {"goog:chromeOptions": options}}}
        self._session = self._ask("POST", "/session", wanted)["sessionId"]
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._call("DELETE", "")
        self._driver.terminate()
        self._driver.communicate()
        shutil.rmtree(self._profile, ignore_errors=True)

    def view(self, width: int, height: int, *, dark: bool = False) -> None:
        """Give the page a size in pixels, which a window may not have, and a colour scheme."""
        scheme = {"name": "prefers-color-scheme", "value": "dark" if dark else "light"}
        metrics = {"width": width, "height": height, "deviceScaleFactor": 1, "mobile": False}
        for name, params in (
            ("DeviceMetricsOverride", metrics),
            ("EmulatedMedia", {"features": [scheme]}),
        ):
            command = {"cmd": f"Emulation.set{name}", "params": params}
            self._call("POST", "/goog/cdp/execute", command)

    def open(self, url: str) -> None:
        """Go to a page."""
        self._call("POST", "/url", {"url": url})

    def find(self, xpath: str) -> str:
        """Wait for an element that is shown; returns its reference."""
        deadline_s = time.monotonic() + _WAIT_S
        while True:
            for found in self._call("POST", "/elements", {"using": "xpath", "value": xpath}):
                if self._is_shown(found[_ELEMENT]):
                    return str(found[_ELEMENT])
            if time.monotonic() > deadline_s:
                raise TimeoutError(f"no {xpath} on the page {self._call('GET', '/url')}")
            threading.Event().wait(_POLL_S)

    def _is_shown(self, element: str) -> bool:
        try:
            return bool(self._call("GET", f"/element/{element}/displayed"))
        except RuntimeError:
            return False  # the page was drawn again meanwhile

    def click(self, xpath: str) -> None:
        """Click on an element as soon as nothing covers it."""
        deadline_s = time.monotonic() + _WAIT_S
        while True:
            try:
                self._call("POST", f"/element/{self.find(xpath)}/click", {})
            except RuntimeError:
                if time.monotonic() > deadline_s:
                    raise
                threading.Event().wait(_POLL_S)
            else:
                return

    def type(self, xpath: str, text: str) -> None:
        """Type into a field."""
        self._call("POST", f"/element/{self.find(xpath)}/value", {"text": text})

    def attribute(self, xpath: str, name: str) -> str:
        """A property of an element, such as its ``outerHTML``."""
        return str(self._call("GET", f"/element/{self.find(xpath)}/property/{name}"))

    def height(self) -> int:
        """The height of the whole document, in pixels."""
        return int(self._run("return document.documentElement.scrollHeight"))

    def runs_out(self) -> list[str]:
        """The words of every element that is wider than its place, so that some are not seen."""
        return [str(words) for words in self._run(_TOO_WIDE)]

    def enter(self, frame: str) -> None:
        """Look into a frame: what follows is meant for the document in it, until ``leave``."""
        self._call("POST", "/frame", {"id": {_ELEMENT: self.find(frame)}})

    def leave(self) -> None:
        """Look at the whole page again."""
        self._call("POST", "/frame", {"id": None})

    def gone(self, xpath: str) -> None:
        """Wait until no such element is shown."""
        deadline_s = time.monotonic() + _WAIT_S
        while self._call("POST", "/elements", {"using": "xpath", "value": xpath}):
            if time.monotonic() > deadline_s:
                raise TimeoutError(f"{xpath} stays on the page {self._call('GET', '/url')}")
            threading.Event().wait(_POLL_S)

    def text(self) -> str:
        """The text of the page."""
        return str(self._call("GET", f"/element/{self.find('//body')}/text"))

    def shoot(self, path: Path) -> None:
        """Write the page as PNG when two pictures in a row are equal."""
        before = b""
        for _ in range(int(_WAIT_S / _POLL_S)):
            now = base64.b64decode(self._call("GET", "/screenshot"))
            if now == before:
                break
            before = now
            threading.Event().wait(2 * _POLL_S)
        path.write_bytes(before)

    def _run(self, script: str) -> Any:
        return self._call("POST", "/execute/sync", {"script": script, "args": []})

    def _listening(self) -> int:
        """The port that the driver chose and printed."""
        for line in self._driver.stdout or ():
            if "started successfully on port" in line:
                return int(line.rstrip(".\n").split()[-1])
        raise RuntimeError(f"{_DRIVER} did not say where it listens")

    def _call(self, method: str, path: str, body: dict[str, Any] | None = None) -> Any:
        return self._ask(method, f"/session/{self._session}{path}", body)

    def _ask(self, method: str, path: str, body: dict[str, Any] | None = None) -> Any:
        server = http.client.HTTPConnection("127.0.0.1", self._port, timeout=240)
        try:
            text = None if body is None else json.dumps(body)
            server.request(method, path, text, {"Content-Type": "application/json"})
            answer = server.getresponse()
            value = json.load(answer)["value"]
        finally:
            server.close()
        if answer.status != http.HTTPStatus.OK:
            raise RuntimeError(f"{method} {path}: {value['error']}: {value['message']}")
        return value
