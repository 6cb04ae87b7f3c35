"""`deskhand serve` on a real desktop: its doors, and one lease over all that connect, by whatever way."""

import os
import signal
import socket
import subprocess
import time

import pytest

from http_client import HttpClient
from session import wait_until

pytestmark = pytest.mark.timeout(120)
LONG = ("a line as long as a call may type " * 40)[:999]  # for about half a second


class Served:
    """A running `deskhand serve`."""

    def __init__(self, desk, arguments=("--addr", "127.0.0.1:0"), environment=None):
        self.desk, self.environment = desk, environment or desk.environment()
        self.process = desk.session.spawn(
            [str(desk.program), "serve", *arguments], self.environment, log="serve", stdout=subprocess.PIPE
        )
        self.places = [self.process.stdout.readline().decode().strip()]
        assert self.places[0], desk.session.log_text("serve")[-2000:]

    def token(self, *arguments):
        done = self.desk.run("token", *arguments, environment=self.environment)
        assert done.returncode == 0, done.stderr
        return done.stdout.strip()

    def client(self, era="modern", token=None, **options):
        return HttpClient(self.places[0], self.process, token or self.token(), era, **options)

    def end(self, number=signal.SIGTERM):
        self.process.send_signal(number)
        return self.process.wait(5)


@pytest.fixture
def served(desk):
    server = Served(desk)
    yield server
    desk.session.end(server.process)


def is_free(client):
    return client.call("status").ok().data["lease"]["held"] is False


def take_and_type(desk, client, text):
    client.acquire()
    process, target = desk.foot_line()
    client.call("type_text", text=text, submit=True).ok()
    wait_until(lambda: target.read_text().endswith("\n"), "the typed line")
    assert target.read_text() == text + "\n"


@pytest.mark.parametrize("era", ["legacy", "modern"])
def test_sees_and_drives(desk, served, era):
    client = served.client(era)
    take_and_type(desk, client, "über HTTP 日本")
    image = client.call("screenshot").ok().image
    assert image.size[0] > 600
    client.release()
    assert is_free(client)


def test_one_lease_over_every_way_in(desk, served):
    """Another process over stdio, a session, two tokens and a second server: one holds, the others are told who."""
    second = Served(desk, environment=served.environment)
    try:
        parties = {
            "stdio": desk.server(environment=served.environment),
            "session": served.client("legacy", name="a-session"),
            "stateless": served.client("modern", name="a-stateless"),
            "other token": served.client("modern", token=served.token("add", "other"), name="another"),
            "other server": second.client("legacy", name="elsewhere"),
        }
        for holder, client in parties.items():
            client.acquire()
            for name, other in parties.items():
                if name == holder:
                    continue
                refused = other.call("acquire_desktop")
                assert refused.error == "lease_held", (holder, name, refused)
                assert refused.data["holder"] == f"{client.name} 1", (holder, name, refused)
            client.release()
    finally:
        desk.session.end(second.process)


def test_a_lease_is_its_principals(desk, served):
    mine, other = served.client("modern"), served.client("modern", token=served.token("add", "other"))
    lease = mine.acquire(request_key="one").data["lease"]
    assert mine.call("acquire_desktop", request_key="one").ok().data["lease"] == lease, "the same request"
    stranger = other.call("type_text", text="x", lease=lease)
    assert stranger.is_error and stranger.error in ("lease_unknown", "no_lease", "lease_held"), stranger
    assert other.call("acquire_desktop", request_key="one").error == "lease_held"
    mine.release()


@pytest.mark.parametrize("way", ["delete", "token", "term", "kill"])
def test_a_holder_that_ends_gives_the_lease_back(desk, served, way):
    watcher = desk.server(environment=served.environment)
    name = served.token("add", "leaving") if way == "token" else None
    holder = served.client("legacy", token=name)
    holder.acquire()
    assert watcher.call("acquire_desktop").error == "lease_held"
    if way == "delete":
        assert holder.delete() == 204
        assert holder.post({"jsonrpc": "2.0", "id": 9, "method": "ping"})[0] == 404
    elif way == "token":
        served.token("remove", "leaving")
    else:
        code = served.end(signal.SIGTERM if way == "term" else signal.SIGKILL)
        assert code == (0 if way == "term" else -signal.SIGKILL)
    wait_until(lambda: not watcher.call("acquire_desktop").is_error, "the lease", 5)


def test_a_stateless_client_that_goes_keeps_its_lease_for_its_token(desk, served):
    """There is no session whose end could be seen: the lease idles out, or its owner comes back with it."""
    first = served.client("modern")
    lease = first.acquire().data["lease"]
    again = served.client("modern")
    again.lease = lease
    assert again.call("key", keys=["F9"]).ok()
    again.release()
    assert is_free(again)


def test_hanging_up_cancels_in_the_stateless_era_only(desk, served):
    _, target = desk.foot_line()
    stateless = served.client("modern")
    stateless.acquire()
    typing = stateless.call_later("type_text", text=LONG)
    wait_until(lambda: typing in stateless._sockets, "the request", every=0.001)
    time.sleep(0.1)
    stateless.hang_up(typing)
    wait_until(lambda: not stateless.call("key", keys=["Return"]).is_error, "the next action", 10)
    wait_until(lambda: target.read_text().endswith("\n"), "the line")
    assert 0 < len(target.read_text()) < len(LONG), "cut short"
    stateless.release()

    session = served.client("legacy")
    session.acquire()
    before = len(target.read_text())
    typing = session.call_later("type_text", text=LONG, submit=True)
    wait_until(lambda: typing in session._sockets, "the request", every=0.001)
    time.sleep(0.1)
    session.hang_up(typing)
    wait_until(lambda: target.read_text().count("\n") == 2, "the whole line", 30)
    assert target.read_text()[before:] == LONG + "\n"
    session.release()


def test_asked_to_end_in_the_middle(desk, served):
    """The answer in flight comes, nothing stays pressed, the lease is given back, the exit is clean."""
    canvas = desk.canvas(3)
    client = served.client("modern")
    client.acquire()
    pending = client.call_later("type_text", text=LONG)
    wait_until(lambda: canvas.events("key"), "the first key")
    begun = time.monotonic()
    assert served.end() == 0
    assert time.monotonic() - begun < 2
    answer = client.result(pending)
    assert answer.is_error and answer.data["typed"] < len(LONG), answer
    wait_until(lambda: not any(_pressed(canvas).values()), "all keys up", 5)
    assert is_free(desk.server(environment=served.environment))


def _pressed(canvas):
    down = {}
    for event in canvas.events("key"):
        down[event["code"]] = event["pressed"]
    return down


def test_the_doors(desk, served):
    client = served.client("modern")
    ask = {"jsonrpc": "2.0", "id": 1, "method": "server/discover", "params": {"_meta": _meta()}}
    head = {"MCP-Protocol-Version": "2026-07-28", "Mcp-Method": "server/discover"}
    assert client.post(ask, **head)[0] == 200
    assert client.post(ask, **head, Origin="http://evil.example")[0] == 403
    assert client.post(ask, **head, Host="evil.example")[0] == 403
    assert client.post(ask, **head, Authorization=None)[0] == 401
    assert client.post(ask, **head, Authorization="Bearer dh_" + "A" * 43)[0] == 401
    log = desk.session.log_text("serve")
    assert served.token() not in log


@pytest.mark.parametrize(
    "arguments, word",
    [
        (["--no-auth"], "--unix"),
        (["--addr", "127.0.0.1:0", "--no-auth"], "--unix"),
        (["--addr", "0.0.0.0:0"], "--allow-remote"),
        (["--addr", "nonsense"], "127.0.0.1:7333"),
    ],
)
def test_open_doors_are_refused(desk, arguments, word):
    done = desk.run("serve", *arguments)
    assert done.returncode == 2 and word in done.stderr, done


def test_a_unix_socket_needs_no_token(desk):
    path = desk.session.directory("socket") / "mcp.sock"
    stale = socket.socket(socket.AF_UNIX)
    stale.bind(str(path))
    stale.close()
    if desk.session.user is not None:
        os.chown(path, desk.session.user, desk.session.user)
    server = Served(desk, ["--unix", str(path), "--no-auth"])
    try:
        assert path.stat().st_mode & 0o777 == 0o600
        client = server.client("legacy", token="none needed")
        client.acquire()
        client.release()
        again = desk.run("serve", "--unix", str(path), "--no-auth")
        assert again.returncode == 1 and "another server" in again.stderr, again
        assert server.end() == 0
        assert not path.exists()
    finally:
        desk.session.end(server.process)


def test_socket_activation(desk):
    """systemd's way: the socket is there first, as descriptor 3, and the first client's request waits in it."""
    listener = socket.create_server(("127.0.0.1", 0))
    environment = desk.environment() | {"LISTEN_FDS": "1"}
    process = desk.session.spawn(
        ["bash", "-c", 'exec 3<&"$1"; LISTEN_PID=$$ exec "$0" serve', str(desk.program), str(listener.fileno())],
        environment, log="activated", stdout=subprocess.PIPE, pass_fds=[listener.fileno()],
    )  # fmt: skip
    place = process.stdout.readline().decode().strip()
    assert place.endswith(f":{listener.getsockname()[1]}/mcp"), place
    listener.close()
    token = desk.run("token", environment=environment).stdout.strip()
    client = HttpClient(place, process, token, "modern")
    assert client.call("status").ok()
    process.terminate()
    assert process.wait(5) == 0


def test_units(desk):
    printed = desk.run("setup", "--systemd").stdout
    assert "ExecStart=" in printed and " serve" in printed and "ListenStream=127.0.0.1:7333" in printed
    environment = desk.environment()
    written = desk.run("setup", "--write-systemd", environment=environment)
    assert written.returncode == 0, written
    folder = os.path.join(environment["XDG_CONFIG_HOME"], "systemd/user")
    assert sorted(os.listdir(folder)) == ["deskhand.service", "deskhand.socket"]
    again = desk.run("setup", "--write-systemd", environment=environment)
    assert again.stdout.count("was left as it") == 2


def _meta():
    return {
        "io.modelcontextprotocol/protocolVersion": "2026-07-28",
        "io.modelcontextprotocol/clientCapabilities": {},
    }
