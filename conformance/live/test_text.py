"""Typed text arrives exactly, whatever the compositor's layout."""

import string

import pytest

from helpers import window_id
from session import wait_until

UNICODE = "héllo Wörld привет 日本 😀 {}[]|~ ?!\"'\\"
ASCII = (string.printable[:95] * 6)[:500]
KEY_A, KEY_Y, KEY_ENTER = 30, 21, 28
PERSON = {"us": "ay", "de": "az", "fr": "qy"}  # what the positions of US a and y give

pytestmark = pytest.mark.timeout(120)


@pytest.fixture(scope="module", params=["us", "de", "fr"])
def layout(request):
    return request.param


@pytest.mark.parametrize("text", [UNICODE, ASCII], ids=["unicode", "ascii500"])
def test_terminal(held, text):
    _, target = held.desk.foot_line()
    result = held.client.call("type_text", text=text, submit=True).ok()
    assert result.data["typed"] == len(text) and result.data["submitted"] is True, result
    wait_until(lambda: target.read_text().endswith("\n"), "the line in the file")
    assert target.read_text() == text + "\n"


def test_terminal_lines_and_tabs(held):
    _, target = held.desk.foot_line()
    text = "one\ttwo\nÄ\t{3}\n"
    held.client.call("type_text", text=text).ok()
    wait_until(lambda: target.read_text().count("\n") == 2, "two lines in the file")
    assert target.read_text() == text


@pytest.mark.parametrize("toolkit", [3, 4])
@pytest.mark.parametrize("text", [UNICODE, ASCII], ids=["unicode", "ascii500"])
def test_gtk_field(held, toolkit, text):
    field = held.desk.entry(toolkit)
    target = window_id(held.client, field.app_id)
    held.client.call("type_text", text=text, expect={"window_id": target}, submit=True).ok()
    wait_until(lambda: field.events("activate"), "Return in the field", 20)
    assert field.text() == text


def test_layout_is_intact_afterwards(held, layout):
    """The person's own keys give what they gave before."""
    _, target = held.desk.foot_line()
    held.client.call("type_text", text="ÄÖ日本", submit=True).ok()
    wait_until(lambda: target.read_text().endswith("\n"), "the typed line")
    for code in (KEY_A, KEY_Y, KEY_ENTER):
        held.session.seat.tap(code)
    wait_until(lambda: target.read_text().count("\n") == 2, "the person's line")
    assert target.read_text().splitlines()[1] == PERSON[layout]
    held.client.release()
    for code in (KEY_A, KEY_Y, KEY_ENTER):
        held.session.seat.tap(code)
    wait_until(lambda: target.read_text().count("\n") == 3, "the person's line after the lease")
    assert target.read_text().splitlines()[2] == PERSON[layout]


def test_key_combinations_follow_their_names(held):
    """`key` means the symbol, not the position: `z` is z on a German keyboard."""
    canvas = held.desk.canvas(3)
    canvas.forget()
    held.client.call("key", keys=["z", "shift+a", "ctrl+y", "Return", "F5"]).ok()
    wait_until(lambda: any(event["name"] == "F5" and not event["pressed"] for event in canvas.events("key")), "F5")
    pressed = [event["name"] for event in canvas.events("key") if event["pressed"]]
    plain = [name for name in pressed if not name.startswith(("Shift", "Control"))]
    assert [name.lower() for name in plain] == ["z", "a", "y", "return", "f5"], pressed
    by_name = {event["name"].lower(): event["modifiers"] for event in canvas.events("key") if event["pressed"]}
    assert by_name["y"] & 4 and not by_name["z"] & 5 and by_name["a"] & 1, by_name


def test_control_characters_are_refused_before_a_key(held):
    canvas = held.desk.canvas(3)
    canvas.forget()
    result = held.client.call("type_text", text="good\x1b[bad")
    assert result.is_error, result
    held.session.seat.tap(67)
    canvas.wait_event("key", name="F9", pressed=False)
    assert {event["name"] for event in canvas.events("key")} == {"F9"}


def test_too_long(held):
    result = held.client.call("type_text", text="x" * 1001)
    assert result.is_error and (result.error == "text_too_long" or "1000" in result.text), result


def test_expect_another_window(held):
    canvas, field = held.desk.canvas(3), held.desk.entry(3)
    canvas.forget()
    held.session.focus(field.app_id)
    result = held.client.call("type_text", text="x", expect={"window_id": window_id(held.client, canvas.app_id)})
    assert result.error == "focus_mismatch", result
    assert field.text() == "" and not canvas.events("key")
