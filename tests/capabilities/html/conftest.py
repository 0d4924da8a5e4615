"""Reports that several test files read, and a browser that a test drives."""

import itertools
import json
import os
import shutil
import subprocess
from base64 import b64decode
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from report_models import few, report, scaling_study, study_page, two  # noqa: F401  # fixtures

CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
OPTIONS = ("--headless", "--no-sandbox", "--disable-gpu", "--hide-scrollbars", "--remote-debugging-pipe")


class Browser:
    """Chromium, over the pipe of its DevTools protocol."""

    def __init__(self, folder: Path) -> None:
        theirs_in, self.ours_out = os.pipe()
        self.ours_in, theirs_out = os.pipe()
        # The browser reads from descriptor 3 and writes to 4.
        words = ("bash", "-c", f'exec "$@" 3<&{theirs_in} 4>&{theirs_out}', "bash", CHROMIUM)
        options = (*OPTIONS, f"--user-data-dir={folder}")
        quiet = {"stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL}
        self.process = subprocess.Popen((*words, *options), pass_fds=(theirs_in, theirs_out), **quiet)
        os.close(theirs_in)
        os.close(theirs_out)
        self.numbers = itertools.count(1)
        self.rest = b""
        self.session: dict[str, Any] = {}
        self.thrown: list[Any] = []
        target = self.call("Target.createTarget", url="about:blank")["targetId"]
        attached = self.call("Target.attachToTarget", targetId=target, flatten=True)
        self.session = {"sessionId": attached["sessionId"]}
        self.call("Page.enable")
        self.call("Runtime.enable")

    def call(self, method: str, **parameters: Any) -> dict[str, Any]:
        """The result of a command of the protocol."""
        number = next(self.numbers)
        message = {"id": number, "method": method, "params": parameters, **self.session}
        os.write(self.ours_out, json.dumps(message).encode() + b"\0")
        while True:
            answer = self.message()
            if answer.get("id") == number:
                assert "error" not in answer, answer
                return answer["result"]

    def message(self) -> dict[str, Any]:
        """The next message of the browser."""
        while b"\0" not in self.rest:
            part = os.read(self.ours_in, 1 << 20)
            assert part, "the browser has ended"
            self.rest += part
        first, _, self.rest = self.rest.partition(b"\0")
        message = json.loads(first)
        if message.get("method") == "Runtime.exceptionThrown":
            self.thrown.append(message["params"])
        return message

    def open(
        self,
        file: Path,
        part: str = "",
        *,
        width: int = 1280,
        scheme: str = "light",
        media: str = "",
        script: bool = True,
    ) -> None:
        """Load a page anew in a window of this width."""
        self.call("Emulation.setScriptExecutionDisabled", value=not script)
        self.call("Emulation.setDeviceMetricsOverride", width=width, height=1000, deviceScaleFactor=1, mobile=False)
        features = [{"name": "prefers-color-scheme", "value": scheme}]
        self.call("Emulation.setEmulatedMedia", media=media, features=features)
        for url in ("about:blank", file.as_uri() + part):
            self.call("Page.navigate", url=url)
            while self.message().get("method") != "Page.loadEventFired":
                pass

    def js(self, expression: str) -> Any:
        """The value of an expression."""
        result = self.call("Runtime.evaluate", expression=expression, returnByValue=True, awaitPromise=True)
        assert "exceptionDetails" not in result, result
        return result["result"].get("value")

    def pdf(self) -> bytes:
        """The page on paper."""
        return b64decode(self.call("Page.printToPDF", preferCSSPageSize=True)["data"])


@pytest.fixture(scope="session")
def browser(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Browser]:
    """A browser without a window."""
    if CHROMIUM is None:
        pytest.skip("chromium is not installed")
    started = Browser(tmp_path_factory.mktemp("profile"))
    yield started
    started.process.terminate()
    started.process.wait()
