"""A small synchronous MCP client over stdio for tests: JSON lines, both eras, every wait with a deadline.

It hides nothing: requests may be sent without waiting, raw bytes may be written, and the server's process is at hand.
"""

import base64
import io
import json
import queue
import subprocess
import threading
import time

LEGACY = "2025-11-25"
MODERN = "2026-07-28"
META = "io.modelcontextprotocol/"
LEASE_TOOLS = {
    "release_desktop", "clipboard_read", "focus", "launch", "close_window", "niri_action", "pointer_move", "click",
    "drag", "scroll", "key", "type_text", "activate_element", "set_element_text", "shell_panel", "noctalia",
}  # fmt: skip


class RpcError(Exception):
    def __init__(self, error):
        super().__init__(f"{error.get('code')}: {error.get('message')}")
        self.code, self.message, self.data = error.get("code"), error.get("message"), error.get("data")


class Ended(Exception):
    """The server's output ended before the answer."""


class ToolResult:
    """The result of `tools/call`."""

    def __init__(self, raw):
        self.raw = raw
        self.is_error = bool(raw.get("isError"))
        self.content = raw.get("content", [])
        self.structured = raw.get("structuredContent")

    def __repr__(self):
        return f"ToolResult(error={self.is_error}, text={self.text[:600]!r}, images={len(self._images())})"

    @property
    def text(self):
        return next((block["text"] for block in self.content if block["type"] == "text"), "")

    @property
    def data(self):
        """The facts: `structuredContent`, else the text read as JSON; None for a plain text."""
        if self.structured is not None:
            return self.structured
        try:
            return json.loads(self.text)
        except ValueError:
            return None

    @property
    def error(self):
        """The error's name (`lease_held`, ...); for a mistake in the arguments the plain text; None on success."""
        if not self.is_error:
            return None
        return self.data.get("error") if isinstance(self.data, dict) else self.text

    @property
    def image(self):
        """The image as a PIL image, or None."""
        from PIL import Image

        blocks = self._images()
        return Image.open(io.BytesIO(base64.b64decode(blocks[0]["data"]))) if blocks else None

    def ok(self):
        """Itself, unless it is an error."""
        assert not self.is_error, self.text
        return self

    def _images(self):
        return [block for block in self.content if block["type"] == "image"]


class Client:
    """One server process and the connection to it. `era` is `legacy` or `modern`."""

    def __init__(self, process, era="legacy", version=None, name="live-test", log=None):
        self.process, self.era, self.name, self.log = process, era, name, log
        self.version = version or (LEGACY if era == "legacy" else MODERN)
        self.lease = None
        self.notifications = []
        self._answers, self._next, self._schemas = {}, 0, None
        self._lines = queue.SimpleQueue()
        self._ended = False
        threading.Thread(target=self._read, daemon=True).start()

    @classmethod
    def start(
        cls, session, argv, environment=None, log="deskhand", era="legacy", version=None, initialize=True, **options
    ):
        """Starts the server as the session's user and, in the legacy era, shakes hands."""
        process = session.spawn(
            argv, environment, log=log, stdin=subprocess.PIPE, stdout=subprocess.PIPE, **options
        )  # fmt: skip
        client = cls(process, era, version, log=lambda: session.log_text(log))
        if era == "legacy" and initialize:
            client.initialize()
        return client

    def initialize(self):
        hello = {
            "protocolVersion": self.version,
            "capabilities": {},
            "clientInfo": {"name": self.name, "version": "1"},
        }
        result = self.request("initialize", hello)
        self.version = result["protocolVersion"]
        self.notify("notifications/initialized")
        return result

    def request(self, method, params=None, timeout=30.0):
        """The result; raises RpcError for an error answer."""
        return self.wait(self.send(method, params), timeout)

    def send(self, method, params=None):
        """Sends a request and returns its id."""
        self._next += 1
        params = dict(params or {})
        if self.era == "modern":
            meta = {
                META + "protocolVersion": self.version,
                META + "clientCapabilities": {},
                META + "clientInfo": {"name": self.name, "version": "1"},
            }
            params["_meta"] = meta | params.get("_meta", {})
        self.write_line({"jsonrpc": "2.0", "id": self._next, "method": method, "params": params})
        return self._next

    def notify(self, method, params=None):
        self.write_line({"jsonrpc": "2.0", "method": method} | ({"params": params} if params else {}))

    def wait(self, id, timeout=30.0):
        """The result of the request with this id."""
        end = time.monotonic() + timeout
        while id not in self._answers:
            self._take(end, f"an answer to request {id}")
        answer = self._answers.pop(id)
        if "error" in answer:
            raise RpcError(answer["error"])
        return answer["result"]

    def next_message(self, timeout=10.0):
        """The next line as it came, parsed; for tests that speak raw."""
        end = time.monotonic() + timeout
        line = self._line(end, "a message")
        return json.loads(line)

    def write_line(self, message):
        self.write(json.dumps(message, ensure_ascii=False).encode() + b"\n")

    def write(self, data):
        self.process.stdin.write(data)
        self.process.stdin.flush()

    # Tools

    def call(self, tool, timeout=40.0, **arguments):
        """Calls a tool. `from_` stands for `from`. In the modern era the lease is passed along."""
        return self.result(self.call_later(tool, **arguments), timeout)

    def call_later(self, tool, **arguments):
        arguments = {name.rstrip("_"): value for name, value in arguments.items()}
        if self.lease and self.era == "modern" and tool in LEASE_TOOLS:
            arguments.setdefault("lease", self.lease)
        return self.send("tools/call", {"name": tool, "arguments": arguments})

    def result(self, id, timeout=40.0):
        return ToolResult(self.wait(id, timeout))

    def acquire(self, **arguments):
        result = self.call("acquire_desktop", **arguments).ok()
        self.lease = result.data["lease"]
        return result

    def release(self, **arguments):
        result = self.call("release_desktop", **arguments).ok()
        self.lease = None
        return result

    def tools(self):
        return self.request("tools/list")["tools"]

    def schema(self, tool):
        if self._schemas is None:
            self._schemas = {entry["name"]: entry["inputSchema"] for entry in self.tools()}
        return self._schemas[tool]

    # The end

    def close(self, timeout=5.0):
        """Ends the server's input and returns its exit code."""
        if self.process.stdin and not self.process.stdin.closed:
            try:
                self.process.stdin.close()
            except BrokenPipeError:
                pass
        return self.process.wait(timeout)

    def kill(self):
        self.process.kill()
        return self.process.wait(5)

    def _read(self):
        for line in self.process.stdout:
            self._lines.put(line)
        self._lines.put(None)

    def _line(self, end, what):
        if self._ended:
            raise Ended(f"no {what}: the server's output ended; {self._log_tail()}")
        try:
            line = self._lines.get(timeout=max(end - time.monotonic(), 0.001))
        except queue.Empty:
            raise TimeoutError(f"no {what} in time; {self._log_tail()}") from None
        if line is None:
            self._ended = True
            return self._line(end, what)
        return line

    def _take(self, end, what):
        message = json.loads(self._line(end, what))
        for one in message if isinstance(message, list) else [message]:
            if "method" in one:
                self.notifications.append(one)
            else:
                self._answers[one.get("id")] = one

    def _log_tail(self):
        return f"log: {self.log()[-1500:]}" if self.log else ""
