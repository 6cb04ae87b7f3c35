"""Behind a closed gate nothing reaches the input devices, and the refusal says what to do."""

import subprocess
import sys

import pytest

from conftest import POLICY
from helpers import assert_no_input, input_requests, try_all_input, window_id
from mcp_client import RpcError
from session import HERE, Session, wait_until

INPUT = {"pointer_move", "click", "drag", "scroll", "key", "type_text"}

pytestmark = pytest.mark.timeout(120)


def prepared(desk, policy=POLICY, **changes):
    """(server, canvas, the canvas's id): the server's Wayland requests are in its log."""
    canvas = desk.canvas(3)
    client = desk.server(policy, WAYLAND_DEBUG="1", **changes)
    return client, canvas


def refused(desk, client, canvas, allowed):
    """Every acting tool fails with one of the allowed names, and nothing is sent."""
    target = desk.session.window(canvas.app_id)["id"]
    before = input_requests(client)
    canvas.forget()
    results = try_all_input(client, target)
    names = {tool: result.error for tool, result in results.items()}
    assert all(name in allowed for name in names.values()), names
    for result in results.values():
        assert result.data.get("detail"), f"no remedy: {result}"
        assert result.structured == result.data
    assert input_requests(client) == before, "requests went to the input devices"
    assert_no_input(desk.session, canvas)


def test_the_count_counts(desk):
    """The gates' proof is worth nothing unless input shows in it."""
    client, canvas = prepared(desk)
    client.acquire()
    before = input_requests(client)
    client.call("key", keys=["a"]).ok()
    canvas.wait_event("key", name="a")
    if input_requests(client) == before:
        pytest.skip("this build doesn't print Wayland requests; the windows' own records stand alone")


def test_without_a_lease(desk):
    client, canvas = prepared(desk)
    refused(desk, client, canvas, {"lease_required"})


def test_an_unknown_lease(desk):
    canvas = desk.canvas(3)
    client = desk.server(era="modern")
    client.lease = "no-such-lease"
    refused(desk, client, canvas, {"lease_required"})


def test_unknown_lock_counts_as_locked(desk):
    client, canvas = prepared(desk, POLICY.replace("assume_unlocked = true", ""))
    answer = client.call("acquire_desktop")
    if answer.is_error:
        assert answer.error == "screen_locked", answer
    else:
        client.lease = answer.data["lease"]
    refused(desk, client, canvas, {"screen_locked"} if client.lease else {"screen_locked", "lease_required"})
    picture = client.call("screenshot")
    assert picture.error == "screen_locked", picture
    assert client.call("desktop_state").ok().data["windows"], "looking works while locked"
    assert any("assume_unlocked" in blocker or "lock" in blocker for blocker in client.call("status").data["blockers"])


def test_stopped_and_resumed(desk):
    client, canvas = prepared(desk)
    client.acquire()
    client.call("key", keys=["a"]).ok()
    canvas.wait_event("key", name="a", pressed=False)
    stopped = desk.run("stop", environment=client.environment)
    assert stopped.returncode == 0, stopped
    wait_until(lambda: client.call("acquire_desktop").error == "stopped", "the stop flag's effect", 2)
    refused(desk, client, canvas, {"stopped"})
    status = client.call("status").ok().data
    assert any("resume" in blocker for blocker in status["blockers"]), status["blockers"]
    resumed = desk.run("resume", environment=client.environment)
    assert resumed.returncode == 0, resumed
    wait_until(lambda: not client.call("acquire_desktop").is_error, "acting again after resume", 5)
    canvas.forget()
    desk.session.focus(canvas.app_id)
    client.call("key", keys=["b"]).ok()
    canvas.wait_event("key", name="b", pressed=False)


def test_stopped_before_the_start(desk):
    assert desk.run("stop").returncode == 0
    client, canvas = prepared(desk)
    refused(desk, client, canvas, {"stopped"})


def test_stop_interrupts_typing(desk):
    client = desk.server()
    _, target = desk.foot_line()
    client.acquire()
    running = [client.call_later("type_text", text="abcdefghij" * 100) for _ in range(8)]
    assert desk.run("stop", environment=client.environment).returncode == 0
    results = [client.result(id) for id in running]
    assert any(result.is_error or "typed" in (result.data or {}) for result in results), results
    assert results[-1].error in {"stopped", None}, results[-1]
    assert client.call("key", keys=["a"]).error == "stopped"


def test_anothers_lease(desk):
    first = desk.server()
    first.acquire()
    client, canvas = prepared(desk)
    answer = client.call("acquire_desktop")
    assert answer.error == "lease_held", answer
    assert "live-test" in answer.data["detail"], "the holder's label is told"
    refused(desk, client, canvas, {"lease_held", "lease_required"})
    first.release()
    wait_until(lambda: not client.call("acquire_desktop").is_error, "the lease after its release", 5)
    assert first.call("key", keys=["a"]).error in {"lease_held", "lease_required"}


def test_a_lease_ends_with_its_process(desk):
    first = desk.server()
    first.acquire()
    second = desk.server()
    assert second.call("acquire_desktop").error == "lease_held"
    first.kill()
    wait_until(lambda: not second.call("acquire_desktop").is_error, "the lease after its holder's death", 5)


def test_request_key_returns_the_same_lease(desk):
    client = desk.server(era="modern")
    one = client.call("acquire_desktop", request_key="k1").ok().data["lease"]
    assert client.call("acquire_desktop", request_key="k1").ok().data["lease"] == one


def test_mismatched_wayland_display(desk):
    """The sway socket of one compositor and the Wayland display of another."""
    with Session(outputs=({"mode": "800x600", "pos": "0 0"},), bus=False) as other:
        there = other.canvas(3)
        there.forget()
        display = str(other.runtime / other.wayland_display)
        client, canvas = prepared(desk, WAYLAND_DISPLAY=display)
        answer = client.call("acquire_desktop")
        names = {"session_mismatch"}
        if answer.is_error:
            assert answer.error == "session_mismatch", answer
            names.add("lease_required")
        else:
            client.lease = answer.data["lease"]
        refused(desk, client, canvas, names)
        assert_no_input(other, there)
        assert any(
            display in blocker or "display" in blocker.lower() for blocker in client.call("status").data["blockers"]
        )


@pytest.mark.parametrize(
    "broken",
    ["nonsense = 1", "profile = 7", "[[preset]\n", 'lease_idle_minutes = "soon"'],
    ids=["key", "type", "syntax", "value"],
)
def test_an_invalid_policy_is_look_only(desk, broken):
    client, canvas = prepared(desk, POLICY + "\n" + broken if broken.startswith("[") else broken + "\n" + POLICY)
    answer = client.call("acquire_desktop")
    if not answer.is_error:
        client.lease = answer.data["lease"]
    refused(desk, client, canvas, {"read_only"} if client.lease else {"read_only", "lease_required"})
    assert client.call("desktop_state").ok().data["windows"]
    status = client.call("status").ok().data
    assert "line" in str(status["policy"]), status["policy"]


def test_the_observe_profile_lists_no_acting_tool(desk):
    client, canvas = prepared(desk, 'profile = "observe"\n' + POLICY)
    listed = {tool["name"] for tool in client.tools()}
    assert {"status", "desktop_state", "wait_for", "screenshot"} <= listed <= {
        "status", "desktop_state", "wait_for", "screenshot", "elements",
    }  # fmt: skip
    canvas.forget()
    for tool in ["acquire_desktop", "key", "click", "type_text", "no_such_tool"]:
        with pytest.raises(RpcError) as caught:
            client.call(tool)
        assert caught.value.code == -32602, tool
    assert_no_input(desk.session, canvas)


def test_a_denied_app_gets_no_input(desk):
    client, canvas = prepared(desk, 'deny_input_app_ids = ["canvas-gtk3"]\n' + POLICY)
    client.acquire()
    before = input_requests(client)
    facts = client.call("screenshot").ok()
    assert facts
    canvas.forget()
    names = {
        "click": client.call("click", x=300, y=300).error,
        "key": client.call("key", keys=["a"]).error,
        "type_text": client.call("type_text", text="no").error,
        "close_window": client.call("close_window", window_id=window_id(client, canvas.app_id)).error,
    }
    assert set(names.values()) == {"app_denied"}, names
    assert input_requests(client) == before
    assert_no_input(desk.session, canvas)


def test_a_mistake_in_the_arguments_does_nothing(desk):
    client, canvas = prepared(desk)
    client.acquire()
    client.call("screenshot").ok()
    canvas.forget()
    wrong = [
        ("click", {"x": "left", "y": 3}, "failed to deserialize parameters: "),
        ("click", {"y": 3}, "failed to deserialize parameters: "),
        ("click", {"x": 3, "y": 3, "count": 9}, "failed to deserialize parameters: "),
        ("scroll", {"x": 3, "y": 3, "notches_y": 11}, "failed to deserialize parameters: "),
        ("key", {"keys": []}, "failed to deserialize parameters: "),
        ("key", {"keys": ["a"], "nonsense": 1}, "failed to deserialize parameters: "),
        ("focus", {"window_id": 999999}, "invalid arguments: "),
        ("close_window", {"window_id": 999999}, "invalid arguments: "),
        ("screenshot", {"output": "DP-77"}, "invalid arguments: "),
    ]
    for tool, arguments, start in wrong:
        result = client.call(tool, **arguments)
        assert result.is_error and result.text.startswith(start), (tool, arguments, result)
        assert result.structured is None and len(result.content) == 1
    unknown = client.call("key", keys=["a", "hyperdrive+q"])
    assert unknown.is_error, "all combinations are parsed before any is pressed"
    assert client.call("launch", preset="none-such").error == "unknown_preset"
    assert_no_input(desk.session, canvas)


def test_bound_combinations_are_refused_on_sway(held):
    canvas = held.desk.canvas(3)
    canvas.forget()
    for keys in (["super+Return"], ["ctrl+alt+F9"], ["a", "super+d"]):
        assert held.client.call("key", keys=keys).error == "unrestricted_required", keys
    assert_no_input(held.session, canvas)


def test_clients_with_equal_ids_are_not_crossed(desk):
    """Two servers, both with request 1 and 2; each lease is its own."""
    one, two = desk.server(era="modern"), desk.server(era="modern")
    lease = one.acquire().data["lease"]
    answer = two.call("key", keys=["a"], lease=lease)
    assert answer.error in {"lease_held", "lease_required"}, "a lease is bound to its principal"


def test_the_program_without_a_display(binary, tmp_path):
    """No compositor: the server still starts, lists its tools, and says so."""
    driver = (
        "import sys; sys.path.insert(0, sys.argv[1]);"
        "from mcp_client import Client; import subprocess;"
        "process = subprocess.Popen([sys.argv[2], 'mcp'], stdin=-1, stdout=-1, env={'PATH': '/usr/bin:/bin', 'HOME': sys.argv[3],"
        " 'XDG_RUNTIME_DIR': sys.argv[3]});"
        "client = Client(process); client.initialize();"
        "assert client.call('desktop_state').error == 'niri_unavailable';"
        "assert client.call('status').ok().data['blockers'];"
        "assert 'niri_action' in {tool['name'] for tool in client.tools()};"
        "sys.exit(client.close())"
    )
    tmp_path.chmod(0o700)
    done = subprocess.run(
        [sys.executable, "-c", driver, str(HERE), str(binary), str(tmp_path)],
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert done.returncode == 0, done.stderr
