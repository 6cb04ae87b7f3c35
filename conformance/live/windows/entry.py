"""A window with one text field: `entry.py 3|4 APP_ID RECORD`. Every change of the text is a line of the record."""

import sys

import gi

TOOLKIT, APP_ID, RECORD = sys.argv[1:4]
gi.require_version("Gtk", f"{TOOLKIT}.0")
gi.require_version("Gdk", f"{TOOLKIT}.0")
from gi.repository import GLib, Gtk

from recorder import Recorder

recorder = Recorder(RECORD)
GLib.set_prgname(APP_ID)
GLib.set_application_name(APP_ID)
loop = GLib.MainLoop()
Gtk.init() if TOOLKIT == "4" else Gtk.init(None)

window = Gtk.Window()
window.set_title(f"{APP_ID} field")
window.set_default_size(600, 200)
entry = Gtk.Entry()
entry.set_max_length(0)
entry.connect("changed", lambda field: recorder.write("text", text=field.get_text()))
entry.connect("activate", lambda field: recorder.write("activate", text=field.get_text()))
window.connect("notify::is-active", lambda *_: recorder.write("active", active=window.get_property("is-active")))


def drawn(*_):
    recorder.write("ready")
    return GLib.SOURCE_REMOVE


if TOOLKIT == "4":
    window.set_child(entry)
    window.connect("close-request", lambda *_: loop.quit())
    window.connect("map", lambda *_: GLib.idle_add(drawn))
    window.present()
else:
    window.add(entry)
    window.connect("destroy", lambda *_: loop.quit())
    window.connect("map-event", lambda *_: GLib.idle_add(drawn) and False)
    window.show_all()
entry.grab_focus()
loop.run()
