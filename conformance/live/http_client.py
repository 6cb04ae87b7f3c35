"""The test client over HTTP: the same calls, each message a POST of its own, on TCP or a Unix socket."""

import contextlib
import http.client
import json
import queue
import socket
import threading
import urllib.parse

from mcp_client import LEGACY, META, MODERN, Client

NAMED = {"tools/call": "name", "prompts/get": "name", "resources/read": "uri"}


class UnixConnection(http.client.HTTPConnection):
    def __init__(self, path, timeout):
        super().__init__("localhost", timeout=timeout)
        self.path = path

    def connect(self):
        self.sock = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        self.sock.settimeout(self.timeout)
        self.sock.connect(self.path)


class HttpClient(Client):
    """`place` is what `deskhand serve` printed. `process` is the server's, which a client doesn't end."""

    def __init__(self, place, process, token=None, era="legacy", name="live-test", headers=None):
        self.place, self.process, self.era, self.name, self.token = place, process, era, name, token
        self.version = LEGACY if era == "legacy" else MODERN
        self.headers = headers or {}
        self.lease = self.session = self.log = None
        self.notifications, self.statuses = [], []
        self._answers, self._next, self._schemas = {}, 0, None
        self._lines, self._ended = queue.SimpleQueue(), False
        self._sockets = {}
        if era == "legacy":
            self.initialize()

    def write_line(self, message):
        if "id" in message and "method" in message:
            threading.Thread(target=self._posted, args=[message], daemon=True).start()
        else:
            self.post(message)

    def post(self, message, timeout=60, **headers):
        """(status, headers, messages) of a POST; a message is parsed JSON."""
        connection = self._connection(timeout)
        with contextlib.closing(connection):
            all_headers = self._headers(message) | headers
            body = json.dumps(message, ensure_ascii=False).encode()
            connection.request("POST", self._path(), body, {k: v for k, v in all_headers.items() if v is not None})
            self._sockets[message.get("id")] = connection.sock
            response = connection.getresponse()
            self.statuses.append(response.status)
            session = response.getheader("mcp-session-id")
            if session:
                self.session = session
            return response.status, response.headers, list(self._messages(response))

    def delete(self):
        """Ends the legacy session; returns the status."""
        with contextlib.closing(self._connection(10)) as connection:
            connection.request("DELETE", self._path(), headers=self._headers({}))
            return connection.getresponse().status

    def hang_up(self, id):
        """The client goes away in the middle of a request."""
        self._sockets.pop(id).shutdown(socket.SHUT_RDWR)

    def close(self, timeout=5.0):
        if self.era == "legacy" and self.session:
            self.delete()

    def _posted(self, message):
        try:
            status, _, answers = self.post(message)
            for answer in answers:
                # A refusal at the door belongs to this request, though it can't name it.
                if status >= 400:
                    answer["id"] = message["id"]
                self._lines.put(json.dumps(answer).encode())
        except (OSError, http.client.HTTPException) as error:
            failed = {"jsonrpc": "2.0", "id": message["id"], "error": {"code": 0, "message": f"{type(error).__name__}: {error}"}}
            self._lines.put(json.dumps(failed).encode())

    def _connection(self, timeout):
        if self.place.startswith("unix:"):
            return UnixConnection(self.place.removeprefix("unix:"), timeout)
        return http.client.HTTPConnection(urllib.parse.urlsplit(self.place).netloc, timeout=timeout)

    def _path(self):
        return "/mcp" if self.place.startswith("unix:") else urllib.parse.urlsplit(self.place).path

    def _headers(self, message):
        headers = {"Content-Type": "application/json", "Accept": "application/json, text/event-stream"}
        if self.token:
            headers["Authorization"] = f"Bearer {self.token}"
        if self.session:
            headers |= {"Mcp-Session-Id": self.session, "MCP-Protocol-Version": self.version}
        params = message.get("params", {})
        if self.era == "modern" and META + "protocolVersion" in params.get("_meta", {}):
            headers |= {"MCP-Protocol-Version": self.version, "Mcp-Method": message["method"]}
            if message["method"] in NAMED:
                headers["Mcp-Name"] = params[NAMED[message["method"]]]
        return headers | self.headers

    def _messages(self, response):
        if not response.headers.get("content-type", "").startswith("text/event-stream"):
            body = response.read()
            return [json.loads(body)] if body else []
        return (json.loads(data) for data in events(response) if data)


def events(response):
    """The data of each event of an SSE stream, as it comes."""
    data = []
    for line in response:
        line = line.decode().rstrip("\r\n")
        if line.startswith("data:"):
            data.append(line[5:].removeprefix(" "))
        elif not line and data:
            yield "\n".join(data)
            data = []
