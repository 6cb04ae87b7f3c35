"""The server is killed in the middle of an action: nothing stays pressed after one second."""

import signal
import time

import pytest

from helpers import drag, screenshot
from session import wait_until

KEY_F9, CTRL, SHIFT = 67, 4, 1
BOUND = 1.0
DRAIN = 15.0  # a window that redraws for some of the keys handles thousands of them late

pytestmark = pytest.mark.timeout(180)


def aimed(desk, canvas, **options):
    client = desk.server(**options)
    client.acquire()
    _, facts = screenshot(client, output="HEADLESS-1", max_width=8192)
    desk.session.seat.move_to(960, 540, *desk.session.extent())
    desk.session.focus(canvas.app_id)
    canvas.forget()
    return client, facts["screenshot_ref"]


def state(events):
    """(buttons down, keys down) after these events; a key is the same with and without shift."""
    buttons, keys = set(), set()
    for event in events:
        if event["event"] not in ("button", "key"):
            continue
        pressed, name = (buttons, event["button"]) if event["event"] == "button" else (keys, event["code"])
        pressed.add(name) if event["pressed"] else pressed.discard(name)
    return buttons, keys


def assert_all_released(session, canvas, died):
    """The person's F9 comes to the window after all that the compositor sent until BOUND: all is up before it."""
    time.sleep(max(0.0, BOUND - (time.monotonic() - died)))
    session.seat.tap(KEY_F9)
    canvas.wait_event("key", DRAIN, name="F9", pressed=False)
    events = canvas.events()
    marker = next(at for at, event in enumerate(events) if event.get("name") == "F9")
    assert state(events[:marker]) == (set(), set()), "still pressed after a second"
    assert events[marker]["modifiers"] == 0, events[marker]
    canvas.forget()
    # Only now: GTK 3 keeps a motion that it reads behind keys until yet another event comes.
    session.seat.move(3, 3)
    moved = canvas.wait_event("motion")
    assert moved["held"] == [] and moved["modifiers"] == 0, moved
    session.seat.click()
    canvas.wait_event("button", pressed=False)


@pytest.mark.parametrize("modifiers", [[], ["ctrl"], ["ctrl", "shift"]], ids=["plain", "ctrl", "ctrl-shift"])
def test_kill_in_the_middle_of_a_drag(desk, modifiers):
    canvas = desk.canvas(3)
    caught = 0
    for _ in range(6):
        client, reference = aimed(desk, canvas)
        extra = {"modifiers": modifiers} if modifiers else {}
        drag(client, (300, 300), (1500, 900), later=True, screenshot_ref=reference, guard=False, **extra)
        wait_until(lambda: state(canvas.events())[0], "the button's press", 5, every=0.0005)
        client.process.send_signal(signal.SIGKILL)
        died = time.monotonic()
        client.process.wait(5)
        released = [event for event in canvas.events("button") if not event["pressed"]]
        caught += not released
        assert_all_released(desk.session, canvas, died)
    assert caught, "every drag was over before the kill: nothing was tested"


def test_kill_while_typing_with_ctrl_held(desk):
    """Sixteen combinations at once; killed at different moments of them."""
    canvas = desk.canvas(3)
    caught = 0
    for attempt in range(12):
        client, _ = aimed(desk, canvas)
        for _ in range(20):
            client.call_later("key", keys=["ctrl+a", "ctrl+shift+b"] * 8)
        wait_until(lambda: canvas.events("key"), "the first key", 5, every=0.0005)
        time.sleep(attempt * 0.003)
        client.process.send_signal(signal.SIGKILL)
        died = time.monotonic()
        client.process.wait(5)
        caught += sum(event["name"] == "a" and event["pressed"] for event in canvas.events("key")) < 160
        assert_all_released(desk.session, canvas, died)
    assert caught, "all keys were typed before the kill: nothing was tested"


def test_kill_while_typing(desk):
    canvas = desk.canvas(4)
    for attempt in range(6):
        client, _ = aimed(desk, canvas)
        for _ in range(5):
            client.call_later("type_text", text="The Quick Brown Fox {0}!" * 40)
        wait_until(lambda: canvas.events("key"), "the first key", 5, every=0.0005)
        time.sleep(attempt * 0.004)
        client.process.send_signal(signal.SIGKILL)
        died = time.monotonic()
        client.process.wait(5)
        assert_all_released(desk.session, canvas, died)


def test_a_new_server_goes_on_after_a_kill(desk):
    canvas = desk.canvas(3)
    client, reference = aimed(desk, canvas)
    drag(client, (300, 300), (1500, 900), later=True, screenshot_ref=reference, guard=False)
    wait_until(lambda: state(canvas.events())[0], "the button's press", 5, every=0.0005)
    client.kill()
    following = desk.server()
    wait_until(lambda: not following.call("acquire_desktop").is_error, "a lease for the next server", 5)
    canvas.wait_event("button", pressed=False)
    canvas.forget()
    desk.session.focus(canvas.app_id)
    following.call("key", keys=["b"]).ok()
    assert canvas.wait_event("key", name="b", pressed=True)["modifiers"] == 0


def test_a_hung_server_is_ended_by_stop(desk):
    """SIGSTOP in the middle of a drag, then `deskhand stop`: the guard ends it and releases the button."""
    canvas = desk.canvas(3)
    client, reference = aimed(desk, canvas)
    drag(client, (300, 300), (1500, 900), later=True, screenshot_ref=reference, guard=False, modifiers=["ctrl"])
    wait_until(lambda: state(canvas.events())[0], "the button's press", 5, every=0.0005)
    client.process.send_signal(signal.SIGSTOP)
    if not state(canvas.events())[0]:
        pytest.skip("the drag was over before the server was stopped")
    desk.run("stop", environment=client.environment)
    died = time.monotonic()
    assert client.process.wait(5) < 0, "the guard didn't end the hung server"
    assert_all_released(desk.session, canvas, died)


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT, signal.SIGHUP], ids=lambda number: number.name)
def test_other_ends(desk, number):
    canvas = desk.canvas(3)
    client, reference = aimed(desk, canvas)
    drag(client, (300, 300), (1500, 900), later=True, screenshot_ref=reference, guard=False, modifiers=["ctrl"])
    wait_until(lambda: state(canvas.events())[0], "the button's press", 5, every=0.0005)
    client.process.send_signal(number)
    died = time.monotonic()
    client.process.wait(5)
    assert_all_released(desk.session, canvas, died)


def test_end_of_input_in_the_middle_of_a_drag(desk):
    """The answer in flight is still sent, nothing stays pressed, and the process ends within a second."""
    canvas = desk.canvas(3)
    client, reference = aimed(desk, canvas)
    running = drag(client, (300, 300), (1500, 900), later=True, screenshot_ref=reference, guard=False)
    wait_until(lambda: state(canvas.events())[0], "the button's press", 5, every=0.0005)
    client.process.stdin.close()
    ended = time.monotonic()
    client.result(running, 5)
    assert client.process.wait(5) == 0
    assert time.monotonic() - ended < 1.5
    assert_all_released(desk.session, canvas, time.monotonic())


def test_no_process_is_left_behind(desk):
    """A guard ends soon after its server, however that ended."""
    before = processes(desk)
    client = desk.server()
    client.acquire()
    client.close()
    wait_until(lambda: processes(desk) <= before, "the end of every process of the server", 3)
    client = desk.server()
    client.acquire()
    client.kill()
    wait_until(lambda: processes(desk) <= before, "the end of every process of the killed server", 3)


def processes(desk):
    """The process ids that run the program under test."""
    import os
    import pathlib

    found = set()
    for entry in pathlib.Path("/proc").glob("[0-9]*"):
        try:
            if os.readlink(entry / "exe") == str(desk.program):
                found.add(int(entry.name))
        except OSError:
            continue
    return found
