"""A person's own keyboard beside the virtual one: its layout and its modifiers stay what they were."""

import pytest

from conftest import Desk
from session import NestedSession, wait_until

OUTPUT = ({"mode": "1280x800", "pos": "0 0", "scale": "1", "transform": "normal"},)
TYPED = "zyZY [ß日本😀]"

pytestmark = pytest.mark.timeout(120)



@pytest.fixture(scope="module", params=["us", "de"])
def layout(request):
    return request.param


@pytest.fixture(scope="module")
def desktop(binary, layout):
    # One layout alone: sway's backend for X takes pressed modifiers for a change of group.
    with NestedSession(layout=layout, outputs=OUTPUT) as session:
        yield Desk(session, binary)


class Person:
    """Presses keys of the X server's keyboard by their places."""

    def __init__(self, session, target):
        self.session, self.target = session, target
        session.xdotool("mousemove", "600", "400")

    def presses(self, *keys):
        """Returns the line that came of it."""
        before = self.target.read_text().count("\n")
        self.session.xdotool("key", *keys, "Return")
        wait_until(lambda: self.target.read_text().count("\n") == before + 1, "the person's line")
        return self.target.read_text().splitlines()[-1]


def test_layout_stays(held, layout):
    _, target = held.desk.foot_line()
    person = Person(held.session, target)
    keys = ("z", "y", "shift+z")
    line = {"us": "zyZ", "de": "yzY"}[layout]
    assert person.presses(*keys) == line, "before"
    for _ in range(3):
        held.client.call("type_text", text=TYPED, submit=True).ok()
        wait_until(lambda: target.read_text().splitlines()[-1] == TYPED, "the typed line")
        assert person.presses(*keys) == line, "under the lease"
    held.client.release()
    assert person.presses(*keys) == line, "after the lease"


def test_caps_lock_of_the_person_stays_and_typing_is_exact(held):
    """A lock on the person's keyboard changes nothing of what is typed, and is there afterwards."""
    session = held.session
    _, target = held.desk.foot_line()
    person = Person(session, target)
    session.xdotool("key", "Caps_Lock")
    try:
        assert person.presses("a") == "A"
        held.client.call("type_text", text="aBc", submit=True).ok()
        wait_until(lambda: target.read_text().splitlines()[-1].lower() == "abc", "the typed line")
        assert target.read_text().splitlines()[-1] == "aBc"
        assert person.presses("a") == "A"
    finally:
        session.xdotool("key", "Caps_Lock")
    assert person.presses("a") == "a"


def test_a_key_that_the_person_holds_is_left_to_them(held):
    """Shift held by the person goes on being held; what is typed meanwhile is exact."""
    session = held.session
    _, target = held.desk.foot_line()
    person = Person(session, target)
    session.xdotool("keydown", "shift")
    try:
        held.client.call("type_text", text="aBc", submit=True).ok()
        wait_until(lambda: target.read_text().endswith("\n"), "the typed line")
        assert target.read_text().splitlines()[-1] == "aBc"
        session.xdotool("key", "a")
    finally:
        session.xdotool("keyup", "shift")
    assert person.presses("a") == "Aa"
