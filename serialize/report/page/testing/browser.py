"""A headless Chromium for tests, by the DevTools protocol over a pipe: no port, no other package.

with Browser() as browser:
    page = browser.open("report.html")
    assert page.run("document.title") == "..."
    page.click("#tab"); page.key("Enter"); page.screenshot("page.png")
"""

import base64
import json
import os
import pathlib
import shutil
import subprocess
import tempfile
import time

CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser")
READY = "document.documentElement?.dataset.ready"
KEYS = {
    "Enter": 13,
    "Escape": 27,
    "Tab": 9,
    "ArrowDown": 40,
    "ArrowUp": 38,
    "ArrowLeft": 37,
    "ArrowRight": 39,
    "PageDown": 34,
    "PageUp": 33,
    "Home": 36,
    "End": 35,
    "Backspace": 8,
}


class Browser:
    def __enter__(self):
        self.profile = tempfile.mkdtemp(prefix="chromium-")
        to_browser, self.to = os.pipe()
        self.back, from_browser = os.pipe()
        script = f'exec 3<&{to_browser} 4>&{from_browser}; exec {CHROMIUM} "$@"'
        self.process = subprocess.Popen(
            [
                "bash",
                "-c",
                script,
                "chromium",
                "--headless",
                "--no-sandbox",
                "--disable-gpu",
                "--no-first-run",
                "--remote-debugging-pipe",
                "--disable-dev-shm-usage",
                "--hide-scrollbars=false",
                "--disable-extensions",
                "--disable-background-networking",
                f"--user-data-dir={self.profile}",
                "about:blank",
            ],
            pass_fds=(to_browser, from_browser),
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        os.close(to_browser)
        os.close(from_browser)
        self.number = 0
        self.rest = b""
        self.events = []
        return self

    def __exit__(self, *error):
        try:
            self.call("Browser.close")
            self.process.wait(10)
        except (OSError, EOFError, subprocess.TimeoutExpired):
            self.process.kill()
            self.process.wait()
        os.close(self.to)
        os.close(self.back)
        shutil.rmtree(self.profile, ignore_errors=True)

    def receive(self):
        while b"\0" not in self.rest:
            data = os.read(self.back, 1 << 20)
            if not data:
                raise EOFError("Chromium ended")
            self.rest += data
        message, _, self.rest = self.rest.partition(b"\0")
        return json.loads(message)

    def call(self, method, session=None, **parameters):
        self.number += 1
        message = {"id": self.number, "method": method, "params": parameters}
        if session:
            message["sessionId"] = session
        os.write(self.to, json.dumps(message).encode() + b"\0")
        while True:
            answer = self.receive()
            if answer.get("id") == self.number:
                if "error" in answer:
                    raise RuntimeError(f"{method}: {answer['error']['message']}")
                return answer["result"]
            self.events.append(answer)

    def open(self, path, width=1600, height=1000, dark=False, anchor="", wait=READY):
        target = self.call("Target.createTarget", url="about:blank")["targetId"]
        session = self.call("Target.attachToTarget", targetId=target, flatten=True)["sessionId"]
        page = Page(self, target, session)
        for domain in ("Page", "Runtime", "Log", "Network"):
            page.call(domain + ".enable")
        page.size(width, height)
        page.dark(dark)
        began = time.monotonic()
        page.call("Page.navigate", url=pathlib.Path(path).absolute().as_uri() + anchor)
        page.wait(wait)
        page.opened_s = time.monotonic() - began
        return page


class Page:
    def __init__(self, browser, target, session):
        self.browser = browser
        self.target = target
        self.session = session

    def call(self, method, **parameters):
        return self.browser.call(method, self.session, **parameters)

    def run(self, expression):
        result = self.call(
            "Runtime.evaluate", expression=expression, awaitPromise=True, returnByValue=True
        )
        if "exceptionDetails" in result:
            raise RuntimeError(result["exceptionDetails"].get("exception", {}).get("description"))
        return result["result"].get("value")

    def wait(self, condition, seconds=60):
        end = time.monotonic() + seconds
        while not self.run(f"!!({condition})"):
            if time.monotonic() > end:
                raise TimeoutError(f"not in {seconds} s: {condition}")
            time.sleep(0.02)
        return self

    def settle(self):
        """Waits until what was asked for is drawn."""
        self.wait("!document.querySelector('[aria-busy]')")
        self.run(
            "new Promise(done => requestAnimationFrame(() => requestAnimationFrame(() => done(0))))"
        )

    def size(self, width, height):
        self.call(
            "Emulation.setDeviceMetricsOverride",
            width=width,
            height=height,
            deviceScaleFactor=1,
            mobile=False,
        )

    def dark(self, on):
        feature = {"name": "prefers-color-scheme", "value": "dark" if on else "light"}
        self.call("Emulation.setEmulatedMedia", features=[feature])

    def go(self, view):
        hash = json.dumps("#" + view)
        self.run(
            f"if (location.hash !== {hash}) {{ delete document.documentElement.dataset.ready;"
            f" location.hash = {hash} }}"
        )
        self.wait(f"document.documentElement.dataset.ready === {json.dumps(view)}")
        self.settle()

    def place(self, selector):
        found = self.run(
            f"(() => {{ const b = document.querySelector({json.dumps(selector)})"
            "?.getBoundingClientRect(); return b && [b.x + b.width / 2, b.y + b.height / 2] })()"
        )
        assert found, f"no {selector}"
        return found

    def mouse(self, kind, x, y, **more):
        self.call("Input.dispatchMouseEvent", type=kind, x=x, y=y, **more)

    def click(self, where, times=1):
        x, y = self.place(where) if isinstance(where, str) else where
        self.mouse("mouseMoved", x, y)
        for i in range(1, times + 1):
            self.mouse("mousePressed", x, y, button="left", buttons=1, clickCount=i)
            self.mouse("mouseReleased", x, y, button="left", clickCount=i)
        self.settle()

    def wheel(self, where, down, modifiers=0):
        x, y = self.place(where) if isinstance(where, str) else where
        self.mouse("mouseWheel", x, y, deltaX=0, deltaY=down, modifiers=modifiers)
        time.sleep(0.1)
        self.settle()

    def key(self, key, modifiers=0):
        code = KEYS.get(key, ord(key[0].upper()))
        text = {"Enter": "\r"}.get(key, key if len(key) == 1 else "")
        common = {"key": key, "windowsVirtualKeyCode": code, "modifiers": modifiers}
        self.call("Input.dispatchKeyEvent", type="keyDown", text=text, **common)
        self.call("Input.dispatchKeyEvent", type="keyUp", **common)
        self.settle()

    def type(self, text):
        self.call("Input.insertText", text=text)
        time.sleep(0.3)
        self.settle()

    def screenshot(self, path):
        data = self.call("Page.captureScreenshot", format="png")["data"]
        pathlib.Path(path).write_bytes(base64.b64decode(data))

    def pdf(self, path):
        data = self.call("Page.printToPDF", printBackground=True)["data"]
        pathlib.Path(path).write_bytes(base64.b64decode(data))

    def texts(self, selector):
        return self.run(
            f"[...document.querySelectorAll({json.dumps(selector)})].map(e => e.textContent)"
        )

    def text(self, selector):
        return self.run(f"document.querySelector({json.dumps(selector)})?.textContent")

    def problems(self):
        """Console errors, uncaught exceptions, violations of the policy, requests."""
        self.run("0")
        found = []
        for event in self.browser.events:
            if event.get("sessionId") != self.session:
                continue
            kind, values = event["method"], event["params"]
            if kind == "Runtime.exceptionThrown":
                found.append(values["exceptionDetails"].get("exception", {}).get("description"))
            elif kind == "Runtime.consoleAPICalled" and values["type"] in ("error", "warning"):
                found.append(str(values["args"]))
            elif kind == "Log.entryAdded" and values["entry"]["level"] in ("error", "warning"):
                found.append(values["entry"]["text"])
            elif kind == "Network.requestWillBeSent":
                url = values["request"]["url"]
                if not url.startswith(("file:", "blob:")) or values.get("type") != "Document":
                    found.append("request: " + url)
        return found

    def close(self):
        self.browser.call("Target.closeTarget", targetId=self.target)
