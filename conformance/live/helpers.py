"""What several tests share: arguments shaped by the tools' own schemas, and proofs that nothing was sent."""

import re

from session import wait_until

KEY_F9 = 67
INPUT_REQUESTS = re.compile(
    r"zwlr_virtual_pointer_v1[@#]\d+\.(?:motion|motion_absolute|button|axis\w*)\b"
    r"|zwp_virtual_keyboard_v1[@#]\d+\.(?:key|modifiers)\b"
)


def window_id(client, app_id):
    """The id that the server gives this app's window; waits until it knows it."""

    def found():
        windows = client.call("desktop_state").ok().data["windows"]
        return next((window["id"] for window in windows if window["app_id"] == app_id), None)

    return wait_until(found, f"{app_id} in desktop_state")


def point(client, x, y, tool="drag", name="from"):
    """A pixel in the form that the tool's schema asks for."""
    kind = _resolve(client, tool, client.schema(tool)["properties"][name]).get("type", "object")
    return [x, y] if kind == "array" else {"x": x, "y": y}


def drag(client, start, end, later=False, **arguments):
    arguments |= {"from_": point(client, *start), "to": point(client, *end)}
    return client.call_later("drag", **arguments) if later else client.call("drag", **arguments)


def until(client, kind, value=True):
    """`wait_for`'s condition; `screen_stable` has no value of its own."""
    assert "until" in client.schema("wait_for")["properties"]
    return kind if kind == "screen_stable" else {kind: value}


def screenshot(client, **arguments):
    """(image, facts) of a screenshot, PNG unless told otherwise."""
    result = client.call("screenshot", **({"format": "png"} | arguments)).ok()
    assert [block["type"] for block in result.content] == ["image", "text"], result
    assert result.structured is None, "an image excludes structuredContent"
    return result.image.convert("RGB"), result.data


def try_all_input(client, target, timeout=40):
    """Calls every tool that acts, aimed at the output's middle; returns {tool: result}."""
    calls = {
        "pointer_move": {"x": 300, "y": 300},
        "click": {"x": 300, "y": 300},
        "drag": {"from_": point(client, 300, 300), "to": point(client, 400, 400)},
        "scroll": {"x": 300, "y": 300, "notches_y": 2},
        "key": {"keys": ["a", "ctrl+b"]},
        "type_text": {"text": "not to be seen"},
        "focus": {"window_id": target},
        "launch": {"preset": "terminal"},
        "close_window": {"window_id": target},
    }
    return {tool: client.call(tool, timeout, **arguments) for tool, arguments in calls.items()}


def assert_no_input(session, window):
    """Nothing reached the window before this moment: a key by the person comes right after, alone."""
    session.focus(window.app_id)
    session.seat.tap(KEY_F9)
    window.wait_event("key", name="F9", pressed=False)
    strange = [event for event in window.input_events() if event.get("name") != "F9"]
    assert not strange, f"input reached the window: {strange[:5]}"
    assert session.window(window.app_id), "the window was closed"


def input_requests(client):
    """How many requests went to the virtual devices, by the WAYLAND_DEBUG lines of the server's stderr."""
    return len(INPUT_REQUESTS.findall(client.log()))


def _resolve(client, tool, schema):
    reference = schema.get("$ref", "")
    if not reference.startswith("#/"):
        return schema
    found = client.schema(tool)
    for part in reference[2:].split("/"):
        found = found[part]
    return found
