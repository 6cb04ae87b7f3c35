"""The seventeen tools on a real niri: the one that NIRI_SOCKET names, if it is nested (its output is `winit`).

Skipped otherwise: a person's own session is never driven by tests.
"""

import json
import os
import pathlib
import shlex
import subprocess

import pytest
from mcp_client import MODERN, Client
from session import wait_until

WINDOWS = pathlib.Path(__file__).resolve().parent / "windows"
TEXT = "héllo Wörld привет 日本 😀 {}[]|~ ?!\"'\\"
ASCII = ("".join(map(chr, range(33, 127))) * 6)[:500]


class Here:
    """A stand-in for a session: this process's own environment."""

    def __init__(self, folder):
        self.folder = folder

    def spawn(self, argv, environment=None, log="server", **options):
        self.log = (self.folder / f"{log}.log").open("ab")
        return subprocess.Popen([str(a) for a in argv], env=environment, stderr=self.log, **options)

    def log_text(self, name):
        return (self.folder / f"{name}.log").read_text(errors="replace")


@pytest.fixture(scope="module")
def niri(binary, tmp_path_factory):
    if not os.environ.get("NIRI_SOCKET"):
        pytest.skip("NIRI_SOCKET is not set: there is no niri to test on")
    folder = tmp_path_factory.mktemp("niri")
    (folder / "config/deskhand").mkdir(parents=True)
    script = WINDOWS / "canvas.py"
    (folder / "config/deskhand/policy.toml").write_text(f"""
assume_unlocked = true
capture_dir = {json.dumps(str(folder))}
[[preset]]
name = "terminal"
argv = ["foot", "--config=/dev/null", "--app-id=niri-terminal"]
app_id = "niri-terminal"
""")
    environment = os.environ | {"XDG_CONFIG_HOME": str(folder / "config"), "XDG_STATE_HOME": str(folder / "state")}
    here = Here(folder)

    def start(**options):
        return Client.start(here, [binary, "mcp"], environment, **options)

    client = start()
    outputs = client.call("desktop_state").ok().data["outputs"]
    if [o["name"] for o in outputs] != ["winit"]:
        client.close()
        pytest.skip(f"the niri at NIRI_SOCKET isn't a nested one ({[o['name'] for o in outputs]}): not driven")
    client.folder, client.start, client.script = folder, start, script
    client.environment = environment
    yield client
    client.close()


def lines(path):
    return [json.loads(line) for line in path.read_text().splitlines() if line.endswith("}")] if path.exists() else []


def test_all_tools_on_niri(niri):
    c, folder = niri, niri.folder
    names = [tool["name"] for tool in c.tools()]
    assert len(names) == 17 and "niri_action" in names
    status = c.call("status").ok().data
    assert status["ready"], status["blockers"]
    assert status["compositor"]["name"] == "niri"

    before = c.call("desktop_state").ok().data
    acquired = c.call("acquire_desktop", request_key="niri-live").ok().data
    assert c.call("acquire_desktop", request_key="niri-live").ok().data["lease"] == acquired["lease"]

    launched = c.call("launch", preset="terminal").ok().data
    assert launched["accepted"] is True and launched["observed"] == "one", launched
    window = launched["windows"][0]
    assert launched["changes"]["focus"]["to"] == window

    for number, text in enumerate([TEXT, ASCII]):
        target = folder / f"typed-{number}"
        c.call("type_text", text=f"cat > {shlex.quote(str(target))}", submit=True, expect={"window_id": window}).ok()
        typed = c.call("type_text", text=text, submit=True, expect={"app_id": "niri-terminal"}).ok().data
        assert typed["typed"] == len(text) and typed["submitted"] is True and typed["observed"] == "sent"
        pressed = c.call("key", keys=["ctrl+d"]).ok().data
        assert pressed["pressed"] == ["ctrl+d"]
        wait_until(lambda: target.exists() and target.read_text() == text + "\n", "the typed text, exact")

    target = folder / "pasted"
    c.call("type_text", text=f"cat > {shlex.quote(str(target))}", submit=True, expect={"window_id": window}).ok()
    pasted = c.call("type_text", text=TEXT, paste=True, paste_keys="ctrl+shift+v", submit=True).ok().data
    assert pasted["read"] is True and pasted["clipboard"] in ("restored", "cleared") and pasted["submitted"] is True, pasted
    c.call("key", keys=["ctrl+d"]).ok()
    wait_until(lambda: target.exists() and target.read_text() == TEXT + "\n", "the pasted text, exact")

    title = c.call_later("wait_for", until={"title": {"window_id": window, "contains": "renamed"}}, timeout_ms=8000)
    c.call("type_text", text="printf '\\033]2;renamed\\007'; sleep 1", submit=True).ok()
    assert c.result(title).data["observed"] == "met"

    floating = c.call("niri_action", action={"ToggleWindowFloating": {"id": window}}).ok().data
    assert floating["changes"]["windows"][0]["floating"] is True, floating
    state = c.call("desktop_state", since=before["seq"]).ok().data
    assert state["windows"][0]["position"] is not None
    c.call("niri_action", action={"ToggleWindowFloating": {"id": window}}).ok()
    refused = c.call("niri_action", action={"Spawn": {"command": ["foot"]}})
    assert refused.error == "unrestricted_required"
    assert c.call("niri_action", action={"FocusWindow": {"id": 987654}}).error.startswith("invalid arguments:")

    shot = c.call("screenshot").ok()
    assert shot.data["output"] == "winit" and shot.image.size == (shot.data["width"], shot.data["height"])
    assert c.call("screenshot", since=shot.data["screenshot_ref"], format="jpeg").ok().data["output"] == "winit"
    region = c.call("screenshot", region={"x": 10, "y": 20, "width": 300, "height": 200}, format="png").ok()
    assert region.image.size == (300, 200)
    saved = c.call("screenshot", save="whole.png").ok().data["saved"]
    assert pathlib.Path(saved).stat().st_size > 1000

    closed = c.call("close_window", window_id=window).ok().data
    assert closed["observed"] == "closed" and closed["changes"]["closed"] == [window]
    other = next(w for w in before["workspaces"] if not w["focused"])
    moved = c.call("focus", workspace_id=other["id"]).ok().data
    assert moved["observed"] == "focused" and moved["changes"]["workspace"]["to"] == other["id"]
    home = next(w for w in before["workspaces"] if w["focused"])
    c.call("focus", workspace_id=home["id"]).ok()
    assert c.call("focus", workspace_id=home["id"]).ok().data["accepted"] is False
    released = c.call("release_desktop", restore_focus=True).ok().data
    assert released["released"] is True


@pytest.mark.parametrize("floating", [False, True])
def test_pixels_on_niri(niri, floating):
    """Clicks, drags, scrolls and moves land where they were seen: the window tells what it got."""
    c = niri
    events = c.folder / f"events-{floating}.jsonl"
    environment = c.environment | {"GDK_BACKEND": "wayland"}
    window = subprocess.Popen(["/usr/bin/python3", c.script, *canvas_arguments(events)], env=environment)
    try:
        waited = c.call("wait_for", until={"window": {"app_id": "niri-canvas"}}, timeout_ms=15000).ok().data
        assert waited["observed"] == "met"
        id = waited["windows"][0]["id"]
        c.call("acquire_desktop").ok()
        if floating:
            c.call("niri_action", action={"MoveWindowToFloating": {"id": id}}).ok()
        c.call("wait_for", until="screen_stable", timeout_ms=5000).ok()
        wait_until(lambda: any(e["event"] == "ready" for e in lines(events)), "the canvas's first picture")
        import pattern

        shot = c.call("screenshot", max_width=8192, format="png").ok()
        image, reference = shot.image.convert("RGB"), shot.data["screenshot_ref"]
        width = [e for e in lines(events) if e["event"] == "size"][-1]["width"]
        tried = 0
        for x in range(150, image.width - 60, 97):  # beside the window the background would decode, too
            for y in range(60, image.height - 60, 131):
                try:
                    expected = pattern.decode(image.getpixel((x, y)), width)
                except ValueError:
                    continue
                if tried >= 6 or not pattern.is_safe(expected):
                    continue
                seen = len(lines(events))
                c.call("click", x=x, y=y, screenshot_ref=reference).ok()
                got = wait_until(lambda: next((e for e in lines(events)[seen:] if e["event"] == "button" and e["pressed"]), None), "the click")
                assert abs(got["x"] - expected[0]) <= 1 and abs(got["y"] - expected[1]) <= 1, (got, expected)
                tried += 1
        assert tried == 6
        x, y = image.width // 4, image.height // 2
        seen = len(lines(events))
        c.call("pointer_move", x=x, y=y, screenshot_ref=reference).ok()
        c.call("scroll", x=x, y=y, notches_y=2, screenshot_ref=reference).ok()
        wait_until(lambda: any(e["event"] == "scroll" for e in lines(events)[seen:]), "the wheel")
        seen = len(lines(events))
        dragged = c.call("drag", from_={"x": x, "y": y}, to={"x": x + 50, "y": y + 40}, screenshot_ref=reference).ok().data
        assert dragged["observed"] == "sent"
        wait_until(lambda: [e["pressed"] for e in lines(events)[seen:] if e["event"] == "button"] == [True, False], "a press and a release")
    finally:
        c.call("release_desktop")
        window.kill()
        window.wait()
        c.call("wait_for", until={"closed": id}, timeout_ms=5000)


def canvas_arguments(events):
    return ["3", "niri-canvas", str(events), "640x400"]


def test_modern_era_on_niri(niri):
    modern = niri.start(era="modern", version=MODERN)
    try:
        lease = modern.call("acquire_desktop").ok().data["lease"]
        assert modern.send("tools/call", {"name": "key", "arguments": {"keys": ["a"]}})
        assert modern.result(modern._next).error == "lease_required"
        modern.call("release_desktop", lease=lease).ok()
    finally:
        assert modern.close() == 0
