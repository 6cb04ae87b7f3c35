"""The program's other commands, and its manners at the ends of stdio."""

import json
import os
import re
import time

import pytest

from helpers import until
from mcp_client import RpcError
from session import wait_until

pytestmark = pytest.mark.timeout(90)


def test_status_for_a_person_and_as_json(desk):
    environment = desk.environment()
    plain = desk.run("status", environment=environment)
    assert plain.returncode == 0 and "sway" in plain.stdout, plain
    facts = json.loads(desk.run("status", "--json", environment=environment).stdout)
    client = desk.server(environment=environment)
    assert set(facts) == set(client.call("status").ok().data)


def test_status_names_the_holder(desk):
    client = desk.server()
    client.acquire()
    shown = desk.run("status", "--json", environment=client.environment).stdout
    assert "live-test" in shown and client.lease not in shown


def test_doctor(desk):
    done = desk.run("doctor")
    assert done.returncode in (0, 1) and done.stdout, done
    assert "panicked" not in done.stderr


def test_tools_in_both_forms(desk):
    listed = json.loads(desk.run("tools", "--json").stdout)
    tools = listed["tools"] if isinstance(listed, dict) else listed
    names = {tool["name"] for tool in tools}
    assert {"status", "click", "niri_action"} <= names
    assert "click" in desk.run("tools").stdout


def test_setup_changes_nothing(desk):
    before = sorted(str(path) for path in desk.session.home.rglob("*"))
    done = desk.run("setup", environment=desk.session.environment())
    assert done.returncode == 0 and "deskhand" in done.stdout and "mcp" in done.stdout, done
    assert sorted(str(path) for path in desk.session.home.rglob("*")) == before


def test_unknown_commands_fail_on_stderr(desk):
    done = desk.run("no-such-command")
    assert done.returncode != 0 and done.stdout == "" and done.stderr


def test_a_recording_replays(desk):
    trace = desk.session.directory("trace") / "session.trace"
    client = desk.server(arguments=("mcp", "--record", str(trace)))
    client.acquire()
    _, typed = desk.foot_line()
    client.call("type_text", text="recordedSECRET", submit=True).ok()
    wait_until(lambda: typed.read_text(), "the text")
    client.call("desktop_state").ok()
    client.release()
    client.close()
    content = trace.read_text()
    assert "recordedSECRET" not in content
    replayed = desk.run("replay", str(trace))
    assert replayed.returncode == 0, replayed
    lines = content.splitlines()
    shorter = trace.with_name("broken.trace")
    last_out = max(number for number, line in enumerate(lines) if line.startswith('{"out"'))
    shorter.write_text("\n".join(lines[:last_out] + lines[last_out + 1 :]) + "\n")
    shorter.chmod(0o644)
    assert desk.run("replay", str(shorter)).returncode != 0, "a missing output must fail"


def test_end_of_input_ends_the_process(desk):
    client = desk.server()
    client.call("status").ok()
    began = time.monotonic()
    assert client.close() == 0
    assert time.monotonic() - began < 1


def test_end_of_input_answers_what_is_in_flight(desk):
    client = desk.server()
    waiting = client.call_later("wait_for", until=until(client, "window", {"app_id": "never"}), timeout_ms=20000)
    status = client.call_later("status")
    client.process.stdin.close()
    began = time.monotonic()
    assert not client.result(status, 5).is_error
    ended = client.result(waiting, 5).ok().data
    assert ended["observed"] == "timeout", ended
    assert client.process.wait(5) == 0
    assert time.monotonic() - began < 1.5


def test_half_a_line_at_the_end(desk):
    client = desk.server()
    client.write(b'{"jsonrpc":"2.0","id":77,"method":"tools/ca')
    assert client.close() == 0


def test_bad_lines_do_not_swallow_the_next(desk):
    client = desk.server()
    for bad in [
        b"not json\n",
        b"\xff\xfe\xfa\n",
        b'{"jsonrpc":"2.0","id":"\xff"}\n',
        b"[" * 100_000 + b"\n",
        b'{"jsonrpc":"2.0","id":1,"method":"tools/call","params":' + b'{"a":' * 50_000 + b"1" + b"}" * 50_000 + b"}\n",
        b'"text"\n',
        b"12\n",
        b"null\n",
        b"\n",
    ]:
        client.write(bad)
        assert not client.call("status").is_error, bad[:40]


def test_a_ten_megabyte_line(desk):
    client = desk.server()
    client.call("status").ok()
    client.write(b'{"jsonrpc":"2.0","id":5000,"method":"tools/call","params":{"name":"status","arguments":{"x":"')
    for _ in range(160):
        client.write(b"y" * 65536)
    client.write(b'"}}}\n')
    client.call("status").ok()
    assert resident_mib(client) < 60, resident_mib(client)


def test_ten_thousand_calls_in_flight(desk):
    client = desk.server()
    client.call("status").ok()
    start = resident_mib(client)
    ids = [
        client.call_later("wait_for", until=until(client, "window", {"app_id": "never"}), timeout_ms=1500)
        for _ in range(10_000)
    ]
    answers = {"busy": 0, "timeout": 0}
    for id in ids:
        try:
            result = client.result(id, 30)
        except RpcError:
            answers["busy"] += 1
            continue
        answers[result.error if result.is_error else result.data["observed"]] += 1
    assert sum(answers.values()) == 10_000 and answers["busy"] and answers["timeout"], answers
    assert resident_mib(client) - start < 60, (start, resident_mib(client))


def test_a_client_that_does_not_read(desk):
    """The server stops reading rather than growing, and goes on when the client does."""
    from mcp_client import Client

    class Deaf(Client):
        def _read(self):
            self.go.wait()
            super()._read()

    import threading

    Deaf.go = threading.Event()
    client = Deaf.start(desk.session, [str(desk.program), "mcp"], desk.environment(), log="deaf", initialize=False)
    desk.servers.append(client)
    hello = {"protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": {"name": "deaf", "version": "1"}}
    first = client.send("initialize", hello)
    sent = []
    os.set_blocking(client.process.stdin.fileno(), False)
    line = b'{"jsonrpc":"2.0","id":%d,"method":"tools/list"}\n'
    number, stuck = 1000, 0
    while number < 21_000 and stuck < 100:
        try:
            written = os.write(client.process.stdin.fileno(), line % number)
        except BlockingIOError:
            stuck += 1
            time.sleep(0.01)
            continue
        assert written == len(line % number), "a pipe takes short lines whole"
        sent.append(number)
        number += 1
    assert resident_mib(client) < 100, resident_mib(client)
    Deaf.go.set()
    os.set_blocking(client.process.stdin.fileno(), True)
    client.wait(first, 20)
    for id in sent:
        try:
            client.wait(id, 20)
        except RpcError:
            pass
    assert client.close() == 0


def test_every_legacy_version_is_spoken(desk):
    for version in ["2024-11-05", "2025-03-26", "2025-06-18", "2025-11-25", "1999-01-01"]:
        client = desk.server(initialize=False)
        client.version = version
        answer = client.initialize()
        assert answer["protocolVersion"] == (version if version != "1999-01-01" else "2025-11-25")
        client.call("status").ok()
        client.close()


def resident_mib(client):
    status = open(f"/proc/{client.process.pid}/status").read()
    return int(re.search(r"VmRSS:\s+(\d+)", status)[1]) / 1024
