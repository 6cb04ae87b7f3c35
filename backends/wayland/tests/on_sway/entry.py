"""A window with one text field that writes its text to a file whenever it changes: entry.py 3|4 FILE"""
import os
import sys

import gi

version, path = sys.argv[1:]
gi.require_version("Gtk", version + ".0")
from gi.repository import GLib, Gtk


def write(buffer):
    start, end = buffer.get_bounds()
    with open(path + ".new", "w", encoding="utf-8") as file:
        file.write(buffer.get_text(start, end, True))
    os.rename(path + ".new", path)


def fill(window):
    view = Gtk.TextView()
    view.get_buffer().connect("changed", write)
    view.set_accepts_tab(True)
    if version == "4":
        window.set_child(view)
    else:
        window.add(view)
        window.show_all()
    view.grab_focus()
    window.present()
    write(view.get_buffer())


def activate(app):
    fill(Gtk.ApplicationWindow(application=app))


GLib.set_prgname("org.deskhand.Entry" + version)
app = Gtk.Application(application_id="org.deskhand.Entry" + version, flags=1 << 5)
app.connect("activate", activate)
app.run([])
