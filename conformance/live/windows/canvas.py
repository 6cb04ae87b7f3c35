"""A window with a decodable picture that records all its input: `canvas.py 3|4 APP_ID RECORD WIDTHxHEIGHT`.

The picture is described in `pattern.py` beside the tests. Keys: `c` changes a corner of the picture (damage), `t`
changes the title.
"""

import sys

import gi

TOOLKIT, APP_ID, RECORD, SIZE = sys.argv[1:5]
gi.require_version("Gtk", f"{TOOLKIT}.0")
gi.require_version("Gdk", f"{TOOLKIT}.0")
import cairo
from gi.repository import Gdk, GLib, Gtk

from recorder import Recorder

CELL = 128
recorder = Recorder(RECORD)
pictures = {}
state = {"ready": False, "titles": 0, "patch": False, "size": None}


def picture(width, height):
    """The pattern at one pixel a logical pixel."""
    if (width, height) not in pictures:
        stride = cairo.ImageSurface.format_stride_for_width(cairo.FORMAT_RGB24, width)
        columns = -(-width // CELL)
        red = bytes(x % CELL * 2 for x in range(width))
        data = bytearray(stride * height)
        for y in range(height):
            first = y // CELL * columns
            row = bytearray(width * 4)
            row[0::4] = bytes(min(32 + first + x // CELL, 255) for x in range(width))
            row[1::4] = bytes([y % CELL * 2]) * width
            row[2::4] = red
            data[y * stride : y * stride + width * 4] = row
        surface = cairo.ImageSurface.create_for_data(data, cairo.FORMAT_RGB24, width, height, stride)
        pictures.clear()
        pictures[width, height] = surface
    return pictures[width, height]


def draw(area, context, *size):
    width, height = size[:2] if len(size) >= 2 else (area.get_allocated_width(), area.get_allocated_height())
    context.set_source_surface(picture(width, height), 0, 0)
    context.get_source().set_filter(cairo.FILTER_NEAREST)
    context.paint()
    if state["patch"]:
        context.set_source_rgb(1, 1, 1)
        context.rectangle(width - 60, height - 60, 50, 50)
        context.fill()
    if state["size"] != (width, height):
        state["size"] = (width, height)
        frames = iter((True, True, False))
        area.add_tick_callback(lambda *_: next(frames) or shown(width, height))
    return False


def shown(width, height):
    """Two frames after drawing: a new frame begins only once the compositor has shown the one before."""
    if state["size"] == (width, height):
        recorder.write("size", width=width, height=height)
        if not state["ready"]:
            state["ready"] = True
            recorder.write("ready")
    return False


def key(pressed, value, code, modifiers):
    recorder.write("key", pressed=pressed, name=Gdk.keyval_name(value), code=code, modifiers=int(modifiers) & 0x4D)
    if pressed and value == Gdk.KEY_t:
        state["titles"] += 1
        window.set_title(f"{APP_ID} title {state['titles']}")
    if pressed and value == Gdk.KEY_c:
        state["patch"] = not state["patch"]
        area.queue_draw()


def motion(x, y, modifiers):
    held = [number for number in (1, 2, 3) if int(modifiers) & 1 << (7 + number)]
    recorder.write("motion", x=round(x, 3), y=round(y, 3), held=held, modifiers=int(modifiers) & 0x4D)


def button(pressed, number, x, y, modifiers):
    recorder.write(
        "button", pressed=pressed, button=number, x=round(x, 3), y=round(y, 3), modifiers=int(modifiers) & 0x4D
    )


GLib.set_prgname(APP_ID)
loop = GLib.MainLoop()
Gtk.init() if TOOLKIT == "4" else Gtk.init(None)
window = Gtk.Window()
window.set_title(f"{APP_ID} title 0")
window.set_default_size(*map(int, SIZE.split("x")))
area = Gtk.DrawingArea()

if TOOLKIT == "4":
    area.set_draw_func(draw)
    window.set_child(area)
    window.set_decorated(False)
    keys = Gtk.EventControllerKey()
    keys.connect("key-pressed", lambda c, value, code, mods: key(True, value, code, mods))
    keys.connect("key-released", lambda c, value, code, mods: key(False, value, code, mods))
    window.add_controller(keys)
    pointer = Gtk.EventControllerMotion()
    pointer.connect("motion", lambda c, x, y: motion(x, y, c.get_current_event_state()))
    pointer.connect("enter", lambda c, x, y: recorder.write("enter", x=round(x, 3), y=round(y, 3)))
    pointer.connect("leave", lambda c: recorder.write("leave"))
    area.add_controller(pointer)
    wheel = Gtk.EventControllerScroll.new(Gtk.EventControllerScrollFlags.BOTH_AXES)
    wheel.connect("scroll", lambda c, dx, dy: recorder.write("scroll", dx=dx, dy=dy))
    area.add_controller(wheel)
    drag = Gtk.GestureDrag()
    drag.set_button(0)
    area.add_controller(drag)

    # PyGObject 3.42 can't hand out GTK 4's raw events: the drag gesture sees every press and release.
    def pressed_or_released(pressed, x, y):
        button(pressed, drag.get_current_button(), x, y, drag.get_current_event_state())

    def released(dx, dy):
        _, x, y = drag.get_start_point()
        pressed_or_released(False, x + dx, y + dy)

    drag.connect("drag-begin", lambda _, x, y: pressed_or_released(True, x, y))
    drag.connect("drag-end", lambda _, dx, dy: released(dx, dy))
    window.connect("close-request", lambda *_: loop.quit())
else:
    area.connect("draw", draw)
    window.add(area)
    window.set_decorated(False)
    area.add_events(
        Gdk.EventMask.POINTER_MOTION_MASK
        | Gdk.EventMask.BUTTON_PRESS_MASK
        | Gdk.EventMask.BUTTON_RELEASE_MASK
        | Gdk.EventMask.SCROLL_MASK
        | Gdk.EventMask.SMOOTH_SCROLL_MASK
        | Gdk.EventMask.ENTER_NOTIFY_MASK
        | Gdk.EventMask.LEAVE_NOTIFY_MASK
    )

    def scrolled(_, happened):
        smooth, dx, dy = happened.get_scroll_deltas()
        if not smooth:
            steps = {"UP": (0, -1), "DOWN": (0, 1), "LEFT": (-1, 0), "RIGHT": (1, 0)}
            dx, dy = steps[happened.direction.value_nick.upper()]
        recorder.write("scroll", dx=dx, dy=dy)

    def pressed_or_released(_, happened):
        if happened.type in (Gdk.EventType.BUTTON_PRESS, Gdk.EventType.BUTTON_RELEASE):
            pressed = happened.type == Gdk.EventType.BUTTON_PRESS
            button(pressed, happened.button, happened.x, happened.y, happened.state)

    area.connect("motion-notify-event", lambda _, e: motion(e.x, e.y, e.state))
    area.connect("button-press-event", pressed_or_released)
    area.connect("button-release-event", pressed_or_released)
    area.connect("scroll-event", scrolled)
    area.connect("enter-notify-event", lambda _, e: recorder.write("enter", x=e.x, y=e.y))
    area.connect("leave-notify-event", lambda _, e: recorder.write("leave"))
    window.connect("key-press-event", lambda _, e: key(True, e.keyval, e.hardware_keycode, e.state))
    window.connect("key-release-event", lambda _, e: key(False, e.keyval, e.hardware_keycode, e.state))
    drag = Gtk.GestureDrag.new(area)
    window.connect("destroy", lambda *_: loop.quit())

drag.connect("drag-begin", lambda _, x, y: recorder.write("drag", phase="begin", x=x, y=y))
drag.connect("drag-end", lambda _, dx, dy: recorder.write("drag", phase="end", dx=dx, dy=dy))
window.connect("notify::is-active", lambda *_: recorder.write("active", active=window.get_property("is-active")))
window.present() if TOOLKIT == "4" else window.show_all()
loop.run()
