"""The harness itself, without the program under test: what it can't do, it can't find."""

import pytest

from pattern import decode
from session import Session, wait_until
from test_pixels import TRANSFORMS, near, park, place, safe_points

KEY_Q, KEY_Y, KEY_ENTER = 16, 21, 28

pytestmark = pytest.mark.timeout(120)


@pytest.mark.parametrize("layout, typed", [("us", "qy"), ("de", "qz"), ("fr", "ay")])
def test_layouts(layout, typed):
    with Session(layout=layout) as session:
        _, target = session.foot_line()
        for code in (KEY_Q, KEY_Y, KEY_ENTER):
            session.seat.tap(code)
        wait_until(lambda: target.read_text() == typed + "\n", f"{typed} in the terminal")
        for toolkit in (3, 4):
            field = session.entry(toolkit)
            session.seat.tap(KEY_Y)
            wait_until(lambda: field.text() == typed[1], f"{typed[1]} in the field")
            field.close()


def test_two_outputs_and_a_restart():
    with Session() as session:
        rectangles = {output["name"]: output["rect"] for output in session.outputs()}
        assert rectangles["HEADLESS-2"]["width"] == 533 and rectangles["HEADLESS-2"]["height"] == 853
        session.sway.kill()
        session.stop_sway()
        session.start_sway()
        session.foot("exec cat", "again")


@pytest.mark.parametrize("toolkit", [3, 4])
def test_the_canvas_decodes_and_reports(toolkit):
    """Every transform and scale: a pixel of grim's picture, pointed at in layout coordinates."""
    with Session() as session:
        session.configure("HEADLESS-2", mode="1200x800@60Hz", scale="1", transform="normal")
        canvas = session.canvas(toolkit, output="HEADLESS-2")
        for transform in TRANSFORMS if toolkit == 3 else TRANSFORMS[::3]:
            for scale in ("1", "1.5", "2"):
                place(session, canvas, transform, scale)
                park(session, canvas)
                image, (width, height) = session.grim("HEADLESS-2"), canvas.size()
                points = safe_points(image, width)
                assert len(points) == 5, (transform, scale)
                for (x, y), expected in points[::2]:
                    across, down = (x + 0.5) / image.width * width, (y + 0.5) / image.height * height
                    assert abs(across - expected[0]) < 1 and abs(down - expected[1]) < 1, (transform, scale)
                    canvas.forget()
                    point_at(session, across, down)
                    session.seat.click()
                    seen = canvas.wait_event("button", pressed=True)
                    canvas.wait_event("button", pressed=False)
                    assert near(seen, expected), (transform, scale, seen, expected)


def point_at(session, across, down):
    origin = session.output("HEADLESS-2")["rect"]
    width, height = session.extent()
    session.seat.move_to(int((origin["x"] + across) * 16), int((origin["y"] + down) * 16), width * 16, height * 16)


def test_the_pattern_is_unmistakable():
    width = 1920
    seen = set()
    for x in range(0, width, 16):
        for y in range(0, 1080, 16):
            cell = y // 128 * 15 + x // 128
            colour = (x % 128 * 2, y % 128 * 2, 32 + cell)
            seen.add(colour)
            assert decode(colour, width) == (x + 0.5, y + 0.5)
    assert len(seen) == 120 * 68
