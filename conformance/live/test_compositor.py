"""The compositor dies, hangs or restarts under the server."""

import signal
import time

import pytest

from conftest import Desk
from helpers import screenshot, until
from session import Session, wait_until

pytestmark = pytest.mark.timeout(150)


@pytest.fixture
def own(binary):
    """A desktop of its own for each test, which may end it."""
    with Session() as session:
        yield Desk(session, binary)


def unavailable(client):
    result = client.call("desktop_state")
    return result if result.error == "niri_unavailable" else None


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGKILL], ids=lambda number: number.name)
def test_death_and_restart(own, number):
    client = own.server()
    client.acquire()
    client.call("key", keys=["a"]).ok()
    own.session.sway.send_signal(number)
    own.session.sway.wait(5)
    gone = wait_until(lambda: unavailable(client), "niri_unavailable after the compositor's death", 5)
    assert "sway" in gone.data["detail"], gone
    for tool, arguments in [("screenshot", {}), ("key", {"keys": ["a"]}), ("acquire_desktop", {})]:
        assert client.call(tool, **arguments).error == "niri_unavailable", tool
    assert client.call("status").ok().data["blockers"]
    own.session.stop_sway()

    own.session.start_sway()
    wait_until(lambda: not client.call("desktop_state").is_error, "the new compositor", 15)
    assert client.call("key", keys=["a"]).error == "lease_required", "a restart is a new instance: leases end"
    client.acquire()
    _, target = own.foot_line()
    client.call("type_text", text="after the restart", submit=True).ok()
    wait_until(lambda: target.read_text() == "after the restart\n", "the text in the new session")
    image, _ = screenshot(client)
    assert image.width > 100


def test_death_during_a_call(own):
    client = own.server()
    client.acquire()
    waiting = client.call_later("wait_for", until=until(client, "window", {"app_id": "never"}), timeout_ms=20000)
    typing = [client.call_later("type_text", text="x" * 1000) for _ in range(3)]
    own.session.sway.kill()
    died = time.monotonic()
    results = [client.result(id, 25) for id in [*typing, waiting]]
    assert time.monotonic() - died < 22
    for result in results[:3]:
        observed = (result.data or {}).get("observed")
        assert result.is_error or observed in {"sent", "uncertain"}, result
    last = results[3]
    assert last.error == "niri_unavailable" or last.data["observed"] in {"uncertain", "timeout"}, last


def test_a_hang(own):
    """SIGSTOP: calls end in time, each saying so; afterwards everything works."""
    canvas = own.session.canvas(3)
    client = own.server()
    client.acquire()
    window = canvas_id(client)
    own.session.sway.send_signal(signal.SIGSTOP)
    try:
        began = time.monotonic()
        calls = {
            "status": client.call_later("status"),
            "screenshot": client.call_later("screenshot"),
            "focus": client.call_later("focus", window_id=window),
            "key": client.call_later("key", keys=["a"]),
        }
        status = client.result(calls.pop("status"), 10)
        assert not status.is_error
        for tool, id in calls.items():
            result = client.result(id, 40)
            doubtful = (result.data or {}).get("observed") in {"uncertain", "timeout", "focused"}
            already = (result.data or {}).get("accepted") is False
            assert result.is_error or doubtful or already, (tool, result)
        assert time.monotonic() - began < 60
    finally:
        own.session.sway.send_signal(signal.SIGCONT)
    wait_until(lambda: not client.call("screenshot").is_error, "a screenshot after the hang", 20)
    if client.call("key", keys=["F5"]).error in {"lease_required", "recovery_required"}:
        own.run("recover", environment=client.environment, answer="yes\n")
        client.acquire()
        client.call("key", keys=["F5"]).ok()
    canvas.wait_event("key", name="F5")


def canvas_id(client):
    windows = client.call("desktop_state").ok().data["windows"]
    return next(window["id"] for window in windows if window["app_id"] == "canvas-gtk3")


def test_started_before_the_compositor(own):
    """The server is there first, as with a client that starts at login."""
    environment = own.environment()
    own.session.stop_sway()
    client = own.server(environment=environment)
    assert unavailable(client), "no compositor yet"
    own.session.start_sway()
    wait_until(lambda: not client.call("desktop_state").is_error, "the compositor that came later", 15)


def test_an_output_that_comes_later(own):
    """Headless sway 1.7 can make an output, not take one away."""
    client = own.server()
    client.acquire()
    own.session.message("create_output")
    wait_until(lambda: len(client.call("desktop_state").ok().data["outputs"]) == 3, "the third output", 5)
    own.session.configure("HEADLESS-3", scale="2", transform="180")
    image, facts = screenshot(client, output="HEADLESS-3", max_width=8192)
    assert image.size == (1920, 1080) and facts["scale"] == 2, facts
    own.session.seat.move(1, 1)
    canvas = own.session.canvas(3, output="HEADLESS-3")
    image, facts = screenshot(client, output="HEADLESS-3", max_width=8192)
    canvas.forget()
    client.call("click", x=801, y=401, screenshot_ref=facts["screenshot_ref"]).ok()
    seen = canvas.wait_event("button", pressed=True)
    assert abs(seen["x"] - 400.75) <= 1 and abs(seen["y"] - 200.75) <= 1, seen
