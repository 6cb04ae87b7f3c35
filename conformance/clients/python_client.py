"""An agent's session by the official Python client: `python_client.py ERA WINDOW_APP_ID TEXT -- COMMAND...`."""

import base64
import json
import os
import sys

import anyio
from mcp.client import Client
from mcp.client.stdio import StdioServerParameters


async def main():
    era, app_id, text, dashes, command, *arguments = sys.argv[1:]
    assert dashes == "--", "usage: python_client.py ERA WINDOW_APP_ID TEXT -- COMMAND..."
    server = StdioServerParameters(command=command, args=arguments, env=dict(os.environ))
    with anyio.fail_after(90):
        async with Client(server, mode=era, read_timeout_seconds=40) as client:
            report = await session(client, app_id, text)
    print(json.dumps(report))


async def session(client, app_id, text):
    tools = [tool.name for tool in (await client.list_tools()).tools]
    need(tools, *"status desktop_state screenshot acquire_desktop type_text click release_desktop".split())

    async def call(name, **arguments):
        result = await client.call_tool(name, arguments)
        if result.is_error:
            raise SystemExit(f"{name}: {result.content[0].text}")
        return result

    status = facts(await call("status"))
    lease = facts(await call("acquire_desktop"))["lease"]
    launched = facts(await call("launch", preset="terminal", lease=lease))
    assert launched["observed"] == "one", launched
    state = facts(await call("desktop_state"))
    target = next(window["id"] for window in state["windows"] if window["app_id"] == app_id)
    focused = facts(await call("focus", window_id=target, lease=lease))
    assert focused["observed"] == "focused", focused
    picture = await call("screenshot", max_width=800, lease=lease)
    assert [block.type for block in picture.content] == ["image", "text"], "an image, then its facts"
    image = base64.b64decode(picture.content[0].data)
    assert image.startswith(b"\xff\xd8"), "not a JPEG"
    seen = json.loads(picture.content[1].text)
    place = {"x": seen["width"] // 2, "y": seen["height"] // 2}
    clicked = facts(await call("click", **place, screenshot_ref=seen["screenshot_ref"], guard=False, lease=lease))
    again = facts(await call("focus", window_id=target, lease=lease))
    typed = facts(await call("type_text", text=text, expect={"window_id": target}, lease=lease))
    assert typed["typed"] == len(text), typed
    closed = facts(await call("close_window", window_id=launched_window(launched), lease=lease))
    released = facts(await call("release_desktop", lease=lease))
    refused = await client.call_tool("key", {"keys": ["a"], "lease": lease})
    assert refused.is_error and facts(refused)["error"] == "lease_required", refused
    return {
        "protocol": client.protocol_version,
        "server": client.server_info.name if client.server_info else None,
        "tools": tools,
        "blockers": status.get("blockers"),
        "screenshot": [seen["width"], seen["height"], len(image)],
        "clicked": clicked.get("observed"),
        "refocused": again.get("observed"),
        "typed": typed.get("typed"),
        "closed": closed.get("observed"),
        "released": released,
    }


def launched_window(launched):
    """The id of the one window that `launch` found."""
    windows = launched.get("windows") or launched.get("window_ids") or [launched.get("window_id")]
    return windows[0]["id"] if isinstance(windows[0], dict) else windows[0]


def facts(result):
    """The structured result, which must equal its text."""
    from_text = json.loads(next(block.text for block in result.content if block.type == "text"))
    if result.structured_content is not None:
        assert from_text == result.structured_content, "text and structuredContent differ"
    return from_text


def need(found, *names):
    missing = [name for name in names if name not in found]
    assert not missing, f"not listed: {missing}"


if __name__ == "__main__":
    anyio.run(main)
