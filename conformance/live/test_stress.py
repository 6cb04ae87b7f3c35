"""Hostile and broken clients, and bad conditions: bounded memory, an answer to everything, nothing claimed that didn't happen."""

import contextlib
import json
import os
import re
import shutil
import signal
import socket
import subprocess
import threading
import time

import pytest

from conftest import Desk
from helpers import drag, screenshot, until
from mcp_client import LEGACY, META, MODERN, Client, Ended, RpcError
from session import NOBODY, Session, wait_until

pytestmark = pytest.mark.timeout(60)

REVISIONS = ["2024-11-05", "2025-03-26", "2025-06-18", "2025-11-25"]
OURS = {META + "protocolVersion": MODERN, META + "clientCapabilities": {}}
HELLO = {"protocolVersion": LEGACY, "capabilities": {}, "clientInfo": {"name": "stress", "version": "1"}}
NEVER = {"window": {"app_id": "never"}}
ENDING = 1.3  # a second, and what a busy machine adds


@pytest.fixture(autouse=True)
def manners(desk):
    """Whatever a test does: stdout holds JSON-RPC alone, and nothing panics."""
    first = len(desk.servers)
    yield
    for number, client in enumerate(desk.servers[first:], first):
        desk.session.end(client.process, patience=2)
        for message in rest(client):
            for one in message if isinstance(message, list) else [message]:
                assert one["jsonrpc"] == "2.0" and ("method" in one or "id" in one), one
        assert "panicked" not in desk.session.log_text(f"deskhand-{number}")


def request(id, method, params=None):
    return {"jsonrpc": "2.0", "id": id, "method": method} | ({} if params is None else {"params": params})


def tool(id, name, **arguments):
    meta = arguments.pop("meta", None)
    params = {"name": name, "arguments": arguments} | ({"_meta": meta} if meta is not None else {})
    return request(id, "tools/call", params)


def cancel(id):
    return {"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": id}}


def line(message):
    return message if isinstance(message, bytes) else json.dumps(message).encode()


def exchange(client, *messages, timeout=20):
    """Sends lines and a ping; what came before the ping's answer."""
    client.marks = getattr(client, "marks", 0) + 1
    mark = f"mark {client.marks}"
    client.write(b"".join(line(message) + b"\n" for message in [*messages, request(mark, "ping")]))
    came = []
    while True:
        message = client.next_message(timeout)
        if isinstance(message, dict) and message.get("id") == mark:
            return came
        came.append(message)


def collect(client, count, timeout=10):
    return [client.next_message(timeout) for _ in range(count)]


def rest(client):
    """What is left until the end of the server's output."""
    left = []
    with contextlib.suppress(Ended):
        while True:
            left.append(client.next_message(5))
    return left


def code(message):
    return message.get("error", {}).get("code")


def ready(desk, version=LEGACY, **options):
    """A server that has looked at the desktop: nothing is held back any more."""
    client = desk.server(initialize=False, **options)
    if version:
        client.version = version
        client.initialize()
    exchange(client)
    client.write_line(tool("warm", "status", meta=OURS))
    while client.next_message().get("id") != "warm":
        pass
    return client


def memory(client, what="VmRSS"):
    """In MiB; `VmHWM` is the highest ever."""
    text = open(f"/proc/{client.process.pid}/status").read()
    return int(re.search(rf"{what}:\s+(\d+)", text)[1]) / 1024


def ends(process, limit=ENDING):
    began = time.monotonic()
    status = process.wait(10)
    took = time.monotonic() - began
    assert took < limit, f"ended only after {took:.2f} s"
    return status


# Lines and ids


def test_ids(desk):
    client = ready(desk)
    for id in [0, -1, "", "0", -(10**30), 2**64, "\0", "😀", "a" * 1000]:
        assert exchange(client, request(id, "ping")) == [{"jsonrpc": "2.0", "id": id, "result": {}}]
    for id in [b"1e3", b"1.5", b"null", b"true", b"[]", b"{}", b'"' + b"a" * 7_000_000 + b'"']:
        [answer] = exchange(client, b'{"jsonrpc":"2.0","id":' + id + b',"method":"ping"}')
        assert answer["id"] is None and code(answer) == -32600, answer
    assert memory(client, "VmHWM") < 100


def test_lines(desk):
    client = ready(desk)
    ping = b'{"jsonrpc":"2.0","id":7,"method":"ping"}'
    pong = {"jsonrpc": "2.0", "id": 7, "result": {}}
    for good in [ping + b"\r", b"\r\n\n \t \n" + ping, b"  " + ping + b"  "]:
        assert exchange(client, good) == [pong]
    deep = b"[" * 200_000 + b"]" * 200_000
    call = b'{"jsonrpc":"2.0","id":7,"method":"tools/call","params":{"name":"status","arguments":{"a":%s}}}'
    for bad, codes in [
        (b"\xef\xbb\xbf" + ping, {-32700}),
        (ping + b"\0", {-32700}),
        (b"\0\0", {-32700}),
        (b"\xff\xfe" + ping, {-32700}),
        (b'{"jsonrpc":"2.0","id":7,"method":"\xff"}', {-32700}),
        (deep, {-32600}),
        (deep[:200_000], {-32600, -32700}),
        (b'{"a":' * 200_000 + b"1" + b"}" * 200_000, {-32600}),
        (call % deep, {-32602}),
        (b'{"jsonrpc":"2.0","id":7,"id":8,"method":"ping"}', {-32600}),
        (b"y" * 10_000_000, {-32600}),
    ]:
        [answer] = exchange(client, bad)
        assert code(answer) in codes, (bad[:60], answer)
        assert len(json.dumps(answer)) < 1000, "an error never grows with its cause"
    [answer] = exchange(client, call % (b"[" + b"0," * 3_000_000 + b"0]"))
    assert answer["result"]["isError"] and memory(client, "VmHWM") < 250
    client.write(b'{"jsonrpc":"2.0","id":7,"method":"pi')
    client.process.stdin.close()
    assert code(client.next_message()) == -32700
    assert ends(client.process) == 0


def test_order(desk):
    client = ready(desk, None)
    for method in ["tools/list", "tools/call", "nonsense"]:
        [answer] = exchange(client, request(1, method, {"name": "status"}))
        assert code(answer) == -32600 and "initialize" in answer["error"]["message"], answer
    assert code(exchange(client, request(1, "server/discover"))[0]) == -32602
    assert code(exchange(client, request(1, "initialize", HELLO | {"protocolVersion": 7}))[0]) == -32602
    [hello] = exchange(client, request(1, "initialize", HELLO | {"protocolVersion": MODERN}))
    assert hello["result"]["protocolVersion"] == LEGACY
    [again] = exchange(client, request(2, "initialize", HELLO | {"protocolVersion": "2024-11-05"}))
    assert code(again) == -32600 and again["id"] == 2
    assert code(exchange(client, request(3, "nonsense"))[0]) == -32601


def test_batches(desk):
    for revision in REVISIONS:
        client = ready(desk, revision)
        pair = [request(0, "ping"), request("", "ping")]
        if revision != "2025-03-26":
            for batch in ([], pair, [pair]):
                [answer] = exchange(client, batch)
                assert code(answer) == -32600 and answer["id"] is None
            # Without a request in it nobody waits for an answer.
            assert exchange(client, [{"jsonrpc": "2.0", "method": "notifications/x"}]) == []
            continue
        assert exchange(client, pair) == [[{"jsonrpc": "2.0", "id": id, "result": {}} for id in (0, "")]]
        assert exchange(client, [{"jsonrpc": "2.0", "method": "notifications/x"}, cancel("none")]) == []
        assert code(exchange(client, [])[0]) == -32600
        assert code(exchange(client, [request(n, "ping") for n in range(101)])[0]) == -32600
        array = ["2.0", 1, "ping", {}, None, None]
        for member in (pair, array, 1, None, request(1, "initialize", HELLO), request(None, "ping")):
            [[answer]] = exchange(client, [member])
            assert code(answer) == -32600, answer
        [[modern]] = exchange(client, [request(5, "subscriptions/listen", {"_meta": OURS, "notifications": {}})])
        assert code(modern) == -32600 and modern["id"] == 5, "an endless member would keep the batch open"
        waits = [tool(10, "wait_for", until=NEVER, timeout_ms=20000), tool(11, "status"), cancel(10)]
        client.write_line(waits)
        [answer] = client.next_message()
        assert answer["id"] == 11, "a cancelled member is left out and holds nothing up"


def test_meta(desk):
    client = ready(desk, None)
    for meta, expected in [
        (OURS, None),
        (OURS | {META + "clientInfo": 7, "progressToken": {}}, None),
        ({META + "protocolVersion": MODERN}, -32602),
        (OURS | {META + "clientCapabilities": []}, -32602),
        (OURS | {META + "protocolVersion": 5}, -32602),
        (OURS | {META + "protocolVersion": "2025-11-25"}, -32022),
        (OURS | {META + "protocolVersion": "x" * 100_000}, -32022),
        ([], -32602),
        (["token", MODERN, None, {}], -32602),
        ("text", -32602),
        ({}, -32600),
        (None, -32600),
    ]:
        [answer] = exchange(client, request("m", "tools/list", {"_meta": meta}))
        assert code(answer) == expected and answer["id"] == "m", (meta, answer)
        assert expected is None or len(json.dumps(answer)) < 1000
    for method in ["initialize", "ping", "logging/setLevel", "resources/subscribe"]:
        assert code(exchange(client, request(1, method, {"_meta": OURS}))[0]) == -32601


def test_both_eras_on_one_connection(desk):
    client = ready(desk)
    client.write_line(tool(1, "status"))
    client.write_line(tool(2, "status", meta=OURS))
    answers = {answer["id"]: answer["result"] for answer in collect(client, 2)}
    assert "resultType" not in answers[1] and answers[2]["resultType"] == "complete"
    client.write_line(tool(3, "acquire_desktop"))
    lease = client.next_message()["result"]["structuredContent"]["lease"]
    client.write_line(tool(4, "key", keys=["a"], meta=OURS))
    assert client.next_message()["result"]["structuredContent"]["error"].startswith("lease_")
    client.write_line(tool(5, "key", keys=["a"], lease=lease, meta=OURS))
    assert client.next_message()["result"]["isError"] is False
    client.write_line(tool(6, "release_desktop"))
    assert client.next_message()["result"]["isError"] is False


def test_progress(desk):
    client = ready(desk)
    for token in ["t", 0]:
        client.write_line(tool(1, "wait_for", until=NEVER, timeout_ms=1500, meta={"progressToken": token}))
        last = -1
        while "id" not in (message := client.next_message()):
            assert message["method"] == "notifications/progress" and message["params"]["progressToken"] == token
            assert message["params"]["progress"] > last, "progress strictly increases"
            last = message["params"]["progress"]
        assert last > 0, "a wait of seconds tells of itself"
    for token in [1.5, None, {}, [], "t" * 100_000]:
        client.write_line(tool(1, "wait_for", until=NEVER, timeout_ms=50, meta={"progressToken": token}))
        assert client.next_message()["id"] == 1


# Calls


def test_cancellation(desk):
    client = ready(desk)
    client.write_line(tool(1, "acquire_desktop"))
    client.next_message()
    texts = [tool(n, "type_text", text="x" * 1000) for n in range(10, 20)]
    waits = [tool(n, "wait_for", until=NEVER, timeout_ms=20000) for n in (20, "20")]
    cancelled = [*range(12, 20), 20, "20"]
    client.write(b"".join(line(message) + b"\n" for message in texts + waits + [cancel(n) for n in cancelled]))
    for id in (None, [], 999, "none", 1):
        client.write_line(cancel(id))
    client.write_line({"jsonrpc": "2.0", "method": "notifications/cancelled"})
    client.write_line(tool(30, "release_desktop"))
    answered = []
    while (message := client.next_message())["id"] != 30:
        answered.append(message["id"])
    assert set(answered) <= {10, 11}, "a cancelled request gets no answer"
    assert len(answered) == len(set(answered)) == 2
    early = desk.server(initialize=False)
    early.write_line(request(0, "initialize", HELLO))
    for message in (tool(1, "status"), cancel(1), tool(1, "desktop_state"), tool(1, "status")):
        early.write_line(message)
    answers = [message for message in collect(early, 3) if message["id"] == 1]
    assert sorted(code(answer) or 0 for answer in answers) == [-32600, 0], "one id, one request at a time"


def test_ids_in_flight(desk):
    client = ready(desk)
    client.write_line(tool(1, "wait_for", until=NEVER, timeout_ms=20000))
    for again in (tool(1, "status"), request(1, "subscriptions/listen", {"_meta": OURS, "notifications": {}})):
        [refused] = exchange(client, again)
        assert code(refused) == -32600 and "in flight" in refused["error"]["message"]
    exchange(client, request(2, "subscriptions/listen", {"_meta": OURS, "notifications": {}}))
    assert code(exchange(client, tool(2, "status"))[0]) == -32600
    exchange(client, cancel(1), cancel(2))
    client.write_line(tool(1, "status"))
    assert client.next_message()["result"]["isError"] is False, "a cancelled id is free again"


def test_ten_thousand_calls_in_flight_and_the_end(desk):
    client = ready(desk)
    before = memory(client)
    lines = b"".join(line(tool(n, "wait_for", until=NEVER, timeout_ms=20000)) + b"\n" for n in range(10_000))
    client.write(lines)
    refused = collect(client, 10_000 - 64, 20)
    assert all(answer["result"]["structuredContent"]["error"] == "busy" for answer in refused)
    assert memory(client) - before < 40
    client.process.stdin.close()
    began = time.monotonic()
    waited = collect(client, 64)
    assert {answer["result"]["structuredContent"]["observed"] for answer in waited} == {"timeout"}
    assert {answer["id"] for answer in refused + waited} == set(range(10_000))
    assert client.process.wait(5) == 0 and time.monotonic() - began < ENDING


def test_the_end_of_input_with_a_full_lane(desk):
    """What can't be done any more is said to be so; each call is answered."""
    client = desk.server()
    client.acquire()
    _, facts = screenshot(client, output="HEADLESS-1")
    ids = [
        drag(client, (20, 20), (600, 400), later=True, screenshot_ref=facts["screenshot_ref"], guard=False)
        for _ in range(40)
    ]
    client.process.stdin.close()
    began = time.monotonic()
    results = [client.result(id, 5) for id in ids]
    assert client.process.wait(5) == 0 and time.monotonic() - began < ENDING
    assert {result.error for result in results} <= {None, "stopped"}
    assert results[-1].error == "stopped" and "ending" in results[-1].data["detail"], results[-1]


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT, signal.SIGHUP], ids=lambda n: n.name)
def test_a_signal_in_the_middle_of_calls(desk, number):
    client = ready(desk)
    client.write_line(request("s", "subscriptions/listen", {"_meta": OURS, "notifications": {"toolsListChanged": True}}))
    client.next_message()
    for id in range(3):
        client.write_line(tool(id, "wait_for", until=NEVER, timeout_ms=20000))
    exchange(client)
    client.process.send_signal(number)
    assert ends(client.process) == 0
    answers = {answer["id"]: answer["result"] for answer in rest(client)}
    assert set(answers) == {0, 1, 2, "s"}
    assert all(answers[id]["isError"] for id in range(3)) and answers["s"]["resultType"] == "complete"


# Subscriptions


def test_subscriptions(desk):
    client = ready(desk, None)
    ids = [0, "", 10**25, "a"]
    for id in ids:
        params = {"_meta": OURS, "notifications": {"toolsListChanged": True, "other": True}}
        [acknowledged] = exchange(client, request(id, "subscriptions/listen", params))
        assert acknowledged["method"] == "notifications/subscriptions/acknowledged"
        assert acknowledged["params"]["notifications"] == {"toolsListChanged": True}
        assert acknowledged["params"]["_meta"][META + "subscriptionId"] == id
        assert type(acknowledged["params"]["_meta"][META + "subscriptionId"]) is type(id)
    assert code(exchange(client, request("b", "subscriptions/listen", {"_meta": OURS}))[0]) == -32602
    more = [request(f"n{n}", "subscriptions/listen", {"_meta": OURS, "notifications": {}}) for n in range(6)]
    assert [code(answer) for answer in exchange(client, *more)] == [None] * 4 + [-32600] * 2
    assert exchange(client, cancel("a"), *[cancel(f"n{n}") for n in range(4)]) == []
    client.process.stdin.close()
    ended = rest(client)
    assert {answer["id"] for answer in ended} == set(ids[:3]) and len(ended) == 3
    assert all(answer["result"]["_meta"][META + "subscriptionId"] == answer["id"] for answer in ended)
    assert ends(client.process) == 0


def test_list_changes(binary):
    """niri's own tool is listed again once sway is gone; each listener is told once, and nobody before it listened."""
    with Session(bus=False) as session:
        desk = Desk(session, binary)
        client = ready(desk)
        exchange(client, request("all", "subscriptions/listen", {"_meta": OURS, "notifications": {"toolsListChanged": True}}))
        exchange(client, request("none", "subscriptions/listen", {"_meta": OURS, "notifications": {}}))
        session.stop_sway()
        told = collect(client, 2)
        assert {message["method"] for message in told} == {"notifications/tools/list_changed"}
        assert [m["params"]["_meta"][META + "subscriptionId"] for m in told if "params" in m] == ["all"]
        assert exchange(client) == []
        client.close()


# The ends of stdio


def pipes(desk, own):
    """A server on two pipes that its user can open anew, or not (as under sudo, by another user's client)."""
    (read_in, write_in), (read_out, write_out) = os.pipe(), os.pipe()
    if own and desk.session.user is not None:
        os.fchown(read_in, NOBODY, NOBODY)
        os.fchown(write_out, NOBODY, NOBODY)
    process = desk.session.spawn(
        [str(desk.program), "mcp"], desk.environment(), log=f"pipes-{len(desk.session.children)}", stdin=read_in, stdout=write_out
    )
    desk.processes.append((process, "deskhand"))
    os.close(read_in)
    os.close(write_out)
    process.stdin, process.stdout = os.fdopen(write_in, "wb", 0), os.fdopen(read_out, "rb", 0)
    return process


@pytest.mark.parametrize("own", [True, False], ids=["own", "theirs"])
def test_a_client_that_does_not_read(desk, own):
    process = pipes(desk, own)
    handle = process.stdin.fileno()
    os.write(handle, line(request("hello", "initialize", HELLO)) + b"\n")
    os.set_blocking(handle, False)
    sent = refused = 0
    while refused < 50 and sent < 100_000:
        try:
            os.write(handle, b'{"jsonrpc":"2.0","id":%d,"method":"tools/list"}\n' % sent)
            sent, refused = sent + 1, 0
        except BlockingIOError:
            refused += 1
            time.sleep(0.01)
    assert sent < 100_000, "what nobody reads isn't asked for without end"
    assert int(re.search(r"VmHWM:\s+(\d+)", open(f"/proc/{process.pid}/status").read())[1]) < 64 << 10
    process.stdin.close()
    assert ends(process) == 0, "neither its input's end nor its full output keeps it"
    process.stdout.close()


@pytest.mark.parametrize("own", [True, False], ids=["own", "theirs"])
def test_a_slow_reader_gets_everything(desk, own):
    process = pipes(desk, own)
    count = 1500
    data = line(request("hello", "initialize", HELLO)) + b"\n"
    data += b"".join(b'{"jsonrpc":"2.0","id":%d,"method":"ping"}\n' % n for n in range(count))
    data += line(tool("last", "status", meta=OURS)) + b"\n"
    process.stdin.write(data)
    process.stdin.close()
    got, one = bytearray(), b" "
    while one:
        one = os.read(process.stdout.fileno(), 1 if len(got) < 20_000 else 4096)
        got += one
    ids = [json.loads(text)["id"] for text in got.splitlines()]
    assert ids == ["hello", *range(count), "last"]
    assert ends(process) == 0
    process.stdout.close()


def test_huge_messages_are_not_kept(desk):
    client = ready(desk)

    def write():
        with contextlib.suppress(OSError):
            for n in range(40):
                client.write_line(tool(f"{n}" + "x" * 6_000_000, "wait_for", until=NEVER, timeout_ms=20000))

    writer = threading.Thread(target=write, daemon=True)
    writer.start()
    assert all(code(answer) == -32600 for answer in collect(client, 40, 20))
    writer.join(5)
    assert memory(client, "VmHWM") < 100


def test_a_held_start_is_bounded(desk):
    """A compositor that doesn't answer, and a client that doesn't wait: small in memory, answered at the end."""
    hung = desk.session.runtime / "hung.sock"
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(str(hung))
        hung.chmod(0o777)
        listener.listen(50)
        client = desk.server(initialize=False, WAYLAND_DISPLAY=str(hung), SWAYSOCK=str(hung))
        client.write_line(request("hello", "initialize", HELLO))
        for n in range(40):
            client.write_line(tool(n, "status", filler="x" * 500_000))
        client.write_line(tool("last", "status"))
        client.process.stdin.close()
        assert {answer["id"] for answer in rest(client)} == {"hello", *range(40), "last"}
        assert ends(client.process) == 0
    hung.unlink()


def test_what_stdin_and_stdout_may_be(desk, tmp_path_factory):
    session = desk.session
    folder = session.directory("stdio")
    hello, output = folder / "in", folder / "out"
    hello.write_bytes(b"".join(line(m) + b"\n" for m in [request("hello", "initialize", HELLO), tool(1, "status")]))
    environment = desk.environment()

    def run(stdin, stdout):
        process = session.spawn([str(desk.program), "mcp"], environment, log="stdio", stdin=stdin, stdout=stdout)
        return process

    with open(hello, "rb") as read, open(output, "wb") as write:
        assert ends(run(read, write), 3) == 0
    assert {json.loads(text)["id"] for text in output.read_text().splitlines()} == {"hello", 1}
    ours, theirs = socket.socketpair()
    process = run(theirs, theirs)
    theirs.close()
    ours.sendall(hello.read_bytes())
    reader = ours.makefile("rb")
    answers = [json.loads(reader.readline())["id"] for _ in range(2)]
    assert set(answers) == {"hello", 1}
    ours.shutdown(socket.SHUT_WR)
    assert ends(process) == 0 and reader.read() == b""
    ours.close()
    for script in [
        'exec "$0" mcp </dev/null',
        'exec "$0" mcp <&-',
        'exec "$0" mcp >&- </dev/null',
        'exec "$0" mcp <&- >&- 2>&-',
        f'exec "$0" mcp >/dev/full <{hello}',
        f'exec "$0" mcp 2>/dev/full >/dev/null <{hello}',
        f'cat {hello} | "$0" mcp | head -c 5 >/dev/null',
    ]:
        process = session.spawn(["sh", "-c", script, str(desk.program)], environment, log="stdio")
        assert ends(process, 3) == 0, script
    terminal = session.spawn(
        ["script", "-qec", f"{desk.program} mcp", "/dev/null"],
        environment,
        log="stdio",
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
    )
    terminal.stdin.write(hello.read_bytes())
    terminal.stdin.flush()
    text = b""
    while b'"id":1,"result"' not in text:
        text += os.read(terminal.stdout.fileno(), 4096) or pytest.fail(text)
    terminal.stdin.write(b"\x04")
    terminal.stdin.close()
    assert ends(terminal, 3) == 0
    assert "panicked" not in session.log_text("stdio")


# Leases


def test_leases_of_two_processes(desk):
    environment = desk.environment()
    one, two = desk.server(environment=environment), desk.server(environment=environment)
    first, second = one.call_later("acquire_desktop"), two.call_later("acquire_desktop")
    answers = {"one": one.result(first), "two": two.result(second)}
    assert sorted(str(answer.error) for answer in answers.values()) == ["None", "lease_held"], answers
    holder, other = (one, two) if answers["one"].error is None else (two, one)
    assert holder.call("acquire_desktop").data["lease"] == holder.call("acquire_desktop").data["lease"]
    assert other.call("release_desktop").error == "lease_held"
    holder.kill()
    died = time.monotonic()
    wait_until(lambda: not other.call("acquire_desktop").is_error, "the lease after a kill", 1.0)
    assert time.monotonic() - died < 1.0
    other.call("release_desktop").ok()
    assert other.call("release_desktop").error == "lease_required", "it is given up once"
    assert other.call("key", keys=["a"]).error == "lease_required"


def test_leases_of_both_eras(desk):
    modern = desk.server(era="modern")
    lease = modern.call("acquire_desktop", request_key="k").ok().data["lease"]
    assert modern.call("acquire_desktop", request_key="k").ok().data["lease"] == lease
    assert modern.call("acquire_desktop", request_key="other").error == "lease_held"
    assert modern.call("key", keys=["a"]).error == "lease_required", "a process is not a session"
    assert modern.call("key", keys=["a"], lease=lease[:-1] + "?").error == "lease_held"
    assert modern.call("key", keys=["a"], lease="").is_error
    modern.call("key", keys=["a"], lease=lease).ok()
    modern.call("release_desktop", lease=lease).ok()
    assert modern.call("key", keys=["a"], lease=lease).error == "lease_required"


def shared_directory(desk):
    return desk.session.runtime / "deskhand"


def test_a_removed_lock_file(desk):
    client = desk.server()
    client.acquire()
    [lock] = [path for path in shared_directory(desk).rglob("lease.lock") if path.with_name("holder.json").exists()]
    lock.unlink()
    wait_until(lambda: client.call("key", keys=["a"]).error == "lease_required", "the lease's end", 1)
    client.acquire()
    assert desk.server().call("acquire_desktop").error == "lease_held"


def test_a_runtime_directory_that_cannot_be_used(desk):
    """Nobody could stop it, so it doesn't act; and it doesn't say that somebody did."""
    shutil.rmtree(shared_directory(desk), ignore_errors=True)
    desk.session.runtime.chmod(0o500)
    try:
        client = desk.server()
        refused = client.call("acquire_desktop")
        assert refused.error == "stopped" and "can't be watched" in refused.data["detail"], refused
        status = client.call("status").ok().data
        assert status["stopped"] is None and "can't be watched" in " ".join(status["blockers"]), status
        assert "person" not in refused.data["detail"], refused
    finally:
        desk.session.runtime.chmod(0o700)
    wait_until(lambda: not client.call("acquire_desktop").is_error, "the lease once the directory can be written", 8)


def test_a_runtime_directory_that_vanishes(desk):
    client = desk.server()
    client.acquire()
    shutil.rmtree(shared_directory(desk))
    wait_until(lambda: client.call("key", keys=["a"]).is_error, "the lease's end", 2)
    wait_until(lambda: not client.call("acquire_desktop").is_error, "a new lease", 3)


# The audit log


def test_an_audit_log_that_cannot_be_made(desk):
    state = desk.session.directory("sealed")
    state.chmod(0o500)
    client = desk.server(XDG_STATE_HOME=str(state))
    assert client.call("acquire_desktop").error == "read_only"
    assert "audit" in " ".join(client.call("status").data["blockers"])
    client.call("desktop_state").ok()
    state.chmod(0o700)
    client.call("status").ok()
    client.acquire()


@pytest.mark.skipif(os.geteuid() != 0, reason="mounts a small file system")
def test_a_full_disk(desk):
    state = desk.session.directory("full")
    mount = ["mount", "-t", "tmpfs", "-o", f"size=16k,mode=700,uid={NOBODY},gid={NOBODY}", "tmpfs", str(state)]
    if subprocess.run(mount, capture_output=True).returncode:
        pytest.skip("no file system can be mounted here")
    try:
        canvas = desk.canvas(3)
        client = desk.server(XDG_STATE_HOME=str(state))
        client.acquire()
        with open(state / "filler", "wb", 0) as filler, contextlib.suppress(OSError):
            while True:
                filler.write(b"x" * 4096)
        for _ in range(100):  # what is left of the log's last page
            result = client.call("key", keys=["a"])
            if result.is_error:
                break
        assert result.error == "read_only" and "free some space" in result.data["detail"], result
        canvas.forget()
        for call in (client.call("key", keys=["a"]), client.call("acquire_desktop"), client.call("type_text", text="a")):
            assert call.error == "read_only", call
        assert not canvas.input_events()
        client.call("desktop_state").ok()
        client.call("screenshot").ok()
        status = client.call("status").ok().data
        assert not status["ready"] and status["audit"]["last_error"] and "audit" in " ".join(status["blockers"])
        (state / "filler").unlink()
        client.call("status").ok()
        client.call("key", keys=["b"]).ok()
        assert client.call("status").ok().data["audit"]["last_error"] is None
        torn = [text for text in client.audit.read_text().splitlines() if not text.endswith("}")]
        assert len(torn) <= 1, "the line that the disk cut short, and no other"
        client.close()
    finally:
        subprocess.run(["umount", "-l", str(state)], check=True)


# The person's switch


def test_stop_during_a_wait_and_a_drag(desk):
    canvas = desk.canvas(3)
    client = desk.server()
    client.acquire()
    _, facts = screenshot(client, output="HEADLESS-1", max_width=8192)
    waiting = client.call_later("wait_for", until=until(client, "window", {"app_id": "never"}), timeout_ms=20000)
    canvas.forget()
    dragging = [
        drag(client, (300, 300), (1500, 900), later=True, screenshot_ref=facts["screenshot_ref"], guard=False)
        for _ in range(10)
    ]
    canvas.wait_event("button", pressed=True)
    assert desk.run("stop", environment=client.environment).returncode == 0
    assert client.result(waiting, 3).error == "stopped"
    results = [client.result(id, 3) for id in dragging]
    assert results[-1].error == "stopped", results
    done = sum(result.error is None for result in results)

    def count(pressed):
        return sum(event["pressed"] == pressed for event in canvas.events("button"))

    # The window is told by the compositor, a moment after the server was.
    wait_until(lambda: count(True) == count(False) >= done, "what was pressed to be released", 1)
    assert count(True) <= done + 1


def test_stop_while_typing(desk):
    """Every character that is said to be typed was, and none that isn't."""
    target = desk.session.directory("typed") / "typed"
    desk.foot(f"stty raw -echo; : > '{target}'; exec cat > '{target}'", "foot-raw")
    wait_until(target.exists, "the terminal's shell")
    client = desk.server()
    client.acquire()
    ids = [client.call_later("type_text", text="x" * 500) for _ in range(60)]
    wait_until(lambda: target.stat().st_size, "the first character")
    assert desk.run("stop", environment=client.environment).returncode == 0
    results = [client.result(id, 5) for id in ids]
    assert results[-1].error == "stopped"
    said = sum((result.data or {}).get("typed") or 0 for result in results)
    wait_until(lambda: target.stat().st_size >= said, f"{said} characters", 5)
    time.sleep(0.2)
    assert target.read_bytes().strip(b"x") == b""
    assert target.stat().st_size == said, (target.stat().st_size, said, results)
