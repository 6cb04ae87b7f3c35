"""What each tool does and reports on a desktop with two outputs."""

import os
import stat
import time

import pytest

from conftest import POLICY
from helpers import drag, screenshot, until, window_id
from session import wait_until

pytestmark = pytest.mark.timeout(90)


def test_the_list(desk):
    """On sway, before Noctalia: these tools and no niri ones, with their annotations."""
    client = desk.server()
    tools = {tool["name"]: tool for tool in client.tools()}
    expected = """status desktop_state clipboard_read wait_for screenshot acquire_desktop release_desktop focus launch close_window
        pointer_move click drag scroll key type_text elements activate_element set_element_text""".split()
    assert set(expected) <= set(tools), sorted(set(expected) - set(tools))
    assert not {"niri_action", "shell_panel", "noctalia"} & set(tools)
    for name, tool in tools.items():
        hints = tool["annotations"]
        assert tool["title"] and hints["openWorldHint"] is False, name
        looks = name in {"status", "desktop_state", "wait_for", "screenshot", "elements", "clipboard_read"}
        destroys = name in {
            "close_window", "click", "drag", "key", "type_text", "activate_element", "set_element_text",
        }  # fmt: skip
        assert hints.get("readOnlyHint", False) is looks, name
        assert looks or hints.get("destructiveHint", True) is destroys, name
        always = (tool.get("_meta") or {}).get("anthropic/alwaysLoad")
        assert (always is True) == (name in {"status", "desktop_state", "screenshot"}), name
        schema = tool["inputSchema"]
        assert schema["type"] == "object" and not {"anyOf", "oneOf", "allOf"} & set(schema), name
        assert len(tool.get("description", "")) < 2048, name


def test_status(desk):
    client = desk.server()
    facts = client.call("status").ok().data
    text = str(facts)
    assert "sway" in text and "HEADLESS-1" in text and "assume_unlocked" in text
    assert facts["blockers"] == [] or all(isinstance(blocker, str) for blocker in facts["blockers"])
    lease = client.acquire().data["lease"]
    assert lease not in str(client.call("status").raw), "the token is never shown"
    with_program = desk.run("status", "--json", environment=client.environment)
    assert lease not in with_program.stdout


def test_desktop_state(desk):
    canvas = desk.canvas(3, "canvas-floating", fullscreen=False)
    client = desk.server()
    target = window_id(client, "canvas-floating")
    state = client.call("desktop_state").ok().data
    seen = next(window for window in state["windows"] if window["id"] == target)
    assert seen["title"] == "canvas-floating title 0" and seen["pid"] == canvas.process.pid and seen["focused"]
    assert state["focused_window"] == target and state["overview_open"] is False
    outputs = {output["name"]: output for output in state["outputs"]}
    assert outputs["HEADLESS-2"]["scale"] == 1.5
    assert outputs["HEADLESS-2"]["transform"] in {"270", "90"}, (
        "wl_output's name, which turns the other way than sway's"
    )
    assert outputs["HEADLESS-2"]["transform"] == "270"
    # A headless sway has virtual keyboards only, and those are nobody's layout.
    assert state["keyboard_layouts"]["names"] == [], state["keyboard_layouts"]
    workspaces = {workspace["id"]: workspace for workspace in state["workspaces"]}
    assert workspaces[seen["workspace_id"]]["output"] == "HEADLESS-1"
    same = client.call("desktop_state", since=state["seq"]).ok().data
    assert "windows" not in same and "unchanged" in str(same), same
    desk.session.seat.tap(20)  # t: the window changes its title
    canvas.wait_event("key", name="t", pressed=False)

    def difference():
        found = client.call("desktop_state", since=state["seq"]).ok().data
        return found if "title 1" in str(found) else None

    changed = wait_until(difference, "the new title in a difference")
    assert changed["seq"] > state["seq"]


def test_launch_reports_the_window_and_reuses_it(held):
    launched = held.client.call("launch", preset="terminal").ok().data
    assert launched["accepted"] is True and launched["observed"] == "one", launched
    opened = launched["changes"]["opened"]
    assert [window["app_id"] for window in opened] == ["preset-terminal"], launched
    again = held.client.call("launch", preset="terminal", reuse=True).ok().data
    assert again["observed"] == "focused", again
    assert len([w for w in held.session.windows() if w["app_id"] == "preset-terminal"]) == 1


def test_close_window(held):
    held.client.call("launch", preset="terminal").ok()
    target = window_id(held.client, "preset-terminal")
    closed = held.client.call("close_window", window_id=target).ok().data
    assert closed["observed"] == "closed" and closed["changes"]["closed"] == [target], closed
    assert held.session.window("preset-terminal") is None


def test_focus(held):
    first, second = held.desk.canvas(3, "one", fullscreen=False), held.desk.canvas(3, "two", fullscreen=False)
    target, other = window_id(held.client, "one"), window_id(held.client, "two")
    held.session.focus("two")
    done = held.client.call("focus", window_id=target).ok().data
    assert done["observed"] == "focused" and done["accepted"] is True, done
    assert done["changes"]["focus"] == {"from": other, "to": target}
    assert held.session.focused() == "one"
    again = held.client.call("focus", window_id=target).ok().data
    assert again["accepted"] is False, again
    state = held.client.call("desktop_state").ok().data
    elsewhere = next(space for space in state["workspaces"] if space["output"] == "HEADLESS-2")
    moved = held.client.call("focus", workspace_id=elsewhere["id"]).ok().data
    assert moved["observed"] == "focused", moved
    assert first.process.poll() is None and second.process.poll() is None


@pytest.mark.parametrize("toolkit", [3, 4])
def test_click_counts_buttons_and_modifiers(held, toolkit):
    canvas = held.desk.canvas(toolkit)
    _, facts = screenshot(held.client, output="HEADLESS-1", max_width=8192)
    canvas.forget()
    common = {"screenshot_ref": facts["screenshot_ref"], "guard": False}
    held.client.call("click", x=400, y=300, count=2, **common).ok()
    wait_until(lambda: len(canvas.events("button")) == 4, "a double click")
    held.client.call("click", x=700, y=300, button="right", modifiers=["ctrl"], **common).ok()
    wait_until(lambda: len(canvas.events("button")) == 6, "a right click")
    right = canvas.events("button")[4]
    assert right["button"] == 3 and right["modifiers"] & 4, right
    result = held.client.call("click", x=900, y=300, button="middle", **common).ok().data
    assert result["accepted"] is True and result["observed"] == "sent", result
    wait_until(lambda: len(canvas.events("button")) == 8, "a middle click")
    assert canvas.events("button")[6]["button"] == 2


@pytest.mark.parametrize("toolkit", [3, 4])
def test_scroll(held, toolkit):
    canvas = held.desk.canvas(toolkit)
    _, facts = screenshot(held.client, output="HEADLESS-1", max_width=8192)
    canvas.forget()
    place = {"x": 500, "y": 500, "screenshot_ref": facts["screenshot_ref"]}
    held.client.call("scroll", notches_y=3, **place).ok()
    # A real wheel's notch is 15 units: 1.5 in GTK 3's smooth deltas, 1 in GTK 4.
    notch = 1.5 if toolkit == 3 else 1
    wait_until(lambda: sum(event["dy"] for event in canvas.events("scroll")) >= 3 * notch, "three notches down")
    assert sum(event["dy"] for event in canvas.events("scroll")) == 3 * notch
    held.client.call("scroll", notches_y=-2, notches_x=1, **place).ok()
    # GTK 4 gives a real wheel's notch to the right as -1, too: its discrete directions are the other way round.
    right = notch if toolkit == 3 else -notch
    wait_until(lambda: sum(event["dx"] for event in canvas.events("scroll")) == right, "one notch right")
    assert sum(event["dy"] for event in canvas.events("scroll")) == notch


def test_pointer_move(held):
    canvas = held.desk.canvas(3)
    _, facts = screenshot(held.client, output="HEADLESS-1", max_width=960)
    canvas.forget()
    done = held.client.call("pointer_move", x=300, y=200, screenshot_ref=facts["screenshot_ref"]).ok().data
    moved = wait_until(lambda: canvas.events("motion", "enter"), "the pointer on the canvas")[-1]
    assert abs(moved["x"] - 601) <= 1 and abs(moved["y"] - 401) <= 1, moved
    assert "HEADLESS-1" in str(done) and not canvas.events("button"), done


def test_drag(held):
    canvas = held.desk.canvas(4)
    _, facts = screenshot(held.client, output="HEADLESS-1", max_width=8192)
    canvas.forget()
    drag(held.client, (300, 300), (900, 600), screenshot_ref=facts["screenshot_ref"]).ok()
    end = canvas.wait_event("drag", phase="end")
    assert abs(end["dx"] - 600) <= 1 and abs(end["dy"] - 300) <= 1, end


def test_expect_on_click(held):
    canvas = held.desk.canvas(3)
    held.client.call("launch", preset="terminal").ok()
    other = window_id(held.client, "preset-terminal")
    held.session.focus(canvas.app_id)
    _, facts = screenshot(held.client, output="HEADLESS-1", max_width=8192)
    canvas.forget()
    result = held.client.call(
        "click", x=400, y=300, screenshot_ref=facts["screenshot_ref"], expect={"window_id": other}, guard=False
    )
    assert result.error == "focus_mismatch", result
    assert not canvas.events("button")


def test_changes_by_a_key(held):
    canvas = held.desk.canvas(3)
    target = window_id(held.client, canvas.app_id)
    result = held.client.call("key", keys=["t"], expect={"window_id": target}).ok().data
    assert result["observed"] == "sent", result
    assert result["changes"]["windows"] == [{"id": target, "title": "canvas-gtk3 title 1"}], result
    quiet = held.client.call("key", keys=["F7"]).ok().data
    assert "changes" not in quiet, quiet


def test_an_action_with_a_screenshot(held):
    canvas = held.desk.canvas(3)
    result = held.client.call("key", keys=["c"], screenshot=True).ok()
    assert [block["type"] for block in result.content] == ["text", "image"] and result.structured is None
    assert result.image.width > 100 and canvas.events("key")


def test_screenshot_formats_and_limits(held):
    held.desk.canvas(3)
    plain = held.client.call("screenshot").ok()
    assert plain.content[0]["mimeType"] == "image/jpeg" and plain.image.size == (1280, 720)
    assert len(plain.content[0]["data"]) <= 1_000_000
    full, facts = screenshot(held.client, output="HEADLESS-1", max_width=8192)
    assert full.size == (1920, 1080) and facts["output"] == "HEADLESS-1"
    grim = held.session.grim("HEADLESS-1")
    differing = sum(
        full.getpixel((x, y)) != grim.getpixel((x, y)) for x in range(5, 1900, 37) for y in range(5, 1060, 41)
    )
    assert differing <= 3, "the picture differs from grim's"
    rotated, facts = screenshot(held.client, output="HEADLESS-2", max_width=8192)
    assert rotated.size == (800, 1280) and facts["scale"] == 1.5, facts


def test_screenshot_of_a_region(held):
    held.desk.canvas(3)
    region = {"x": 256, "y": 128, "width": 300, "height": 200}
    image, facts = screenshot(held.client, region=region)
    full, _ = screenshot(held.client, output="HEADLESS-1", max_width=8192)
    assert image.size == (300, 200), facts
    assert image.getpixel((10, 10)) == full.getpixel((266, 138))


def test_screenshot_since(held):
    held.desk.canvas(3)
    held.client.call("wait_for", until=until(held.client, "screen_stable")).ok()
    image, facts = screenshot(held.client, output="HEADLESS-1")
    same = held.client.call("screenshot", output="HEADLESS-1", format="png", since=facts["screenshot_ref"]).ok()
    assert same.image is None and "unchanged" in str(same.data), same
    held.client.call("key", keys=["c"]).ok()
    held.client.call("wait_for", until=until(held.client, "screen_stable")).ok()
    changed = held.client.call("screenshot", output="HEADLESS-1", format="png", since=facts["screenshot_ref"]).ok()
    assert changed.image is not None and changed.image.size == image.size


def test_screenshot_save(desk):
    folder = desk.session.directory("captures")
    client = desk.server(f'capture_dir = "{folder}"\n' + POLICY)
    client.acquire()
    desk.canvas(3)
    result = client.call("screenshot", output="HEADLESS-1", max_width=640, save="one.png").ok()
    path = folder / "one.png"
    assert path.exists(), result
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    from PIL import Image

    assert Image.open(path).size == (1920, 1080), "full resolution"
    content = path.read_bytes()
    outside = desk.session.directory("outside")
    (folder / "link").symlink_to(outside)
    os.symlink(outside / "target.png", folder / "dangling.png")
    for name in ["one.png", "../two.png", "/tmp/three.png", "link/four.png", "dangling.png", "five.jpg"]:
        refused = client.call("screenshot", save=name)
        assert refused.is_error, (name, refused)
    assert path.read_bytes() == content and not list(outside.iterdir())
    without = desk.server()
    assert without.call("screenshot", save="six.png").error == "save_not_enabled"


def test_wait_for(desk):
    client = desk.server()
    began = time.monotonic()
    result = client.call("wait_for", until=until(client, "window", {"app_id": "later"}), timeout_ms=300).ok()
    assert result.data["observed"] == "timeout" and 0.25 < time.monotonic() - began < 5, result
    coming = client.call_later("wait_for", until=until(client, "window", {"app_id": "later"}), timeout_ms=20000)
    canvas = desk.canvas(3, "later", fullscreen=False)
    met = client.result(coming).ok().data
    assert met["observed"] == "met" and met["windows"][0]["app_id"] == "later", met
    at_once = client.call("wait_for", until=until(client, "window", {"app_id": "later"})).ok().data
    assert at_once["observed"] == "met" and at_once["waited_ms"] < 500
    target = window_id(client, "later")
    title = until(client, "title", {"window_id": target, "contains": "title 1"})
    changing = client.call_later("wait_for", until=title, timeout_ms=15000)
    desk.session.focus("later")
    desk.session.seat.tap(20)
    assert client.result(changing).ok().data["observed"] == "met"
    closing = client.call_later("wait_for", until=until(client, "closed", target), timeout_ms=15000)
    canvas.close()
    assert client.result(closing).ok().data["observed"] == "met"


def test_wait_for_is_cancelled(desk):
    """A cancelled request gets no reply, and the server goes on."""
    client = desk.server()
    waiting = client.call_later("wait_for", until=until(client, "window", {"app_id": "never"}), timeout_ms=3000)
    client.notify("notifications/cancelled", {"requestId": waiting})
    client.call("status").ok()
    with pytest.raises(TimeoutError):
        client.wait(waiting, 4)
    client.call("status").ok()


def test_interrupted_by_the_person(held):
    """Focus moves to a window that the action wasn't about: said, not hidden."""
    held.desk.canvas(3, "mine", fullscreen=False)
    other = held.desk.canvas(3, "theirs", fullscreen=False)
    target = window_id(held.client, "mine")
    held.client.call("focus", window_id=target).ok()
    running = held.client.call_later("key", keys=["F7"] * 16)
    held.session.message('[app_id="theirs"] focus')
    result = held.client.result(running)
    observed = (result.data or {}).get("observed")
    assert result.is_error or observed in {"interrupted", "sent"}, result
    if observed == "interrupted":
        assert any(block["type"] == "image" for block in result.content), "a fresh screenshot comes with a doubt"
    assert other.process.poll() is None


def test_release_restores_focus(desk):
    first = desk.canvas(3, "users", fullscreen=False)
    client = desk.server()
    taken = client.acquire().data
    assert taken["users_window"] and taken["expires_at"] and taken["holder"], taken
    client.call("launch", preset="terminal").ok()
    assert desk.session.focused() == "preset-terminal"
    client.release(restore_focus=True)
    wait_until(lambda: desk.session.focused() == first.app_id, "the focus back on the person's window")


def test_modern_era_passes_the_lease(desk):
    client = desk.server(era="modern")
    found = client.request("server/discover")
    assert "2026-07-28" in found["supportedVersions"], found
    client.acquire()
    _, target = desk.foot_line()
    client.call("type_text", text="modern", submit=True).ok()
    wait_until(lambda: target.read_text() == "modern\n", "the text")
    without = client.result(client.send("tools/call", {"name": "key", "arguments": {"keys": ["a"]}}))
    assert without.error == "lease_required", "in the modern era the lease must be given"
    client.release()


def test_the_audit_log_has_no_secret(held):
    """Marked secrets through the tools; nothing that was written contains them."""
    secret = "Zx9SECRETq7"
    canvas = held.desk.canvas(3, app_id="audited")
    held.client.call("type_text", text=secret).ok()
    held.client.call("launch", preset=secret)
    held.client.call("key", keys=[secret])
    held.client.call("wait_for", until=until(held.client, "window", {"title": secret}), timeout_ms=100)
    held.client.call("type_text", text="x", expect={"app_id": secret})
    held.client.call("click", x=1, y=1, screenshot_ref=secret)
    held.client.call("screenshot", save=secret + ".png")
    lines = held.client.audit.read_text().splitlines()
    assert len(lines) >= 7 and stat.S_IMODE(held.client.audit.stat().st_mode) == 0o600
    written = "\n".join(lines) + held.client.log()
    assert secret not in written and held.client.lease not in written and "audited title" not in written
    assert canvas.process.poll() is None
