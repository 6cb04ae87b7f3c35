"""A window with ordinary widgets: `form.py 3|4 APP_ID RECORD [rows=N] [title=TEXT]`.

Buttons, an entry, a password entry, a check box, and a list with as many rows as told. What they feel is a line of the
record. Lines on stdin change it: `rename TEXT`, `recreate`, `reorder`, `second TITLE`.
"""

import sys

import gi

TOOLKIT, APP_ID, RECORD = sys.argv[1:4]
OPTIONS = dict(argument.split("=", 1) for argument in sys.argv[4:])
gi.require_version("Gtk", f"{TOOLKIT}.0")
gi.require_version("Gdk", f"{TOOLKIT}.0")
from gi.repository import GLib, Gtk

from recorder import Recorder

FOUR = TOOLKIT == "4"
recorder = Recorder(RECORD)
GLib.set_prgname(APP_ID)
GLib.set_application_name(APP_ID)
loop = GLib.MainLoop()
Gtk.init() if FOUR else Gtk.init(None)


def add(box, child):
    box.append(child) if FOUR else box.pack_start(child, False, False, 0)
    return child


def button(label):
    made = Gtk.Button(label=label)
    made.connect("clicked", lambda it: recorder.write("clicked", label=it.get_label()))
    return made


def rows(count):
    """GTK 3: a tree view; GTK 4: a list view, which has widgets for the visible rows only."""
    if FOUR:
        factory = Gtk.SignalListItemFactory()
        factory.connect("setup", lambda _, item: item.set_child(Gtk.Label(xalign=0)))
        factory.connect("bind", lambda _, item: item.get_child().set_label(item.get_item().get_string()))
        strings = Gtk.StringList.new([f"Row {n}" for n in range(count)])
        view = Gtk.ListView.new(Gtk.SingleSelection.new(strings), factory)
        scrolled = Gtk.ScrolledWindow(vexpand=True)
        scrolled.set_child(view)
        return scrolled
    store = Gtk.ListStore(str)
    for n in range(count):
        store.append([f"Row {n}"])
    view = Gtk.TreeView(model=store)
    view.append_column(Gtk.TreeViewColumn("Rows", Gtk.CellRendererText(), text=0))
    scrolled = Gtk.ScrolledWindow()
    scrolled.add(view)
    return scrolled


window = Gtk.Window()
window.set_title(OPTIONS.get("title", f"{APP_ID} form"))
window.set_default_size(700, 500)
box = Gtk.Box(orientation=Gtk.Orientation.VERTICAL, spacing=6)
first, second = add(box, button("First")), add(box, button("Second"))
entry = add(box, Gtk.Entry())
entry.connect("changed", lambda it: recorder.write("text", text=it.get_text()))
limited = add(box, Gtk.Entry(max_length=5))
password = add(box, Gtk.PasswordEntry() if FOUR else Gtk.Entry(visibility=False))
if not FOUR:
    password.get_accessible().set_role(gi.repository.Atk.Role.PASSWORD_TEXT) if hasattr(gi.repository, "Atk") else None
password.set_text("a secret that stays")
password.connect("changed", lambda it: recorder.write("password", length=len(it.get_text())))
check = add(box, Gtk.CheckButton(label="Check"))
check.connect("toggled", lambda it: recorder.write("toggled", active=it.get_active()))
for name, field in (("Plain field", entry), ("Short field", limited)):
    if FOUR:
        field.update_property([Gtk.AccessibleProperty.LABEL], [name])
    else:
        field.get_accessible().set_name(name)
count = int(OPTIONS.get("rows", "0"))
if count:
    listing = rows(count)
    listing.set_vexpand(True)
    box.append(listing) if FOUR else box.pack_start(listing, True, True, 0)
others = []


def command(_, condition):
    global second
    line = sys.stdin.readline()
    if not line:
        return GLib.SOURCE_REMOVE
    word, _, rest = line.strip().partition(" ")
    if word == "rename":
        first.set_label(rest)
    elif word == "recreate":
        box.remove(second)
        second = button("Second")
        if FOUR:
            box.insert_child_after(second, first)
        else:
            box.pack_start(second, False, False, 0)
            box.reorder_child(second, 1)
            second.show()
    elif word == "reorder":
        box.reorder_child_after(first, second) if FOUR else box.reorder_child(first, 1)
    elif word == "second":
        other = Gtk.Window()
        other.set_title(rest)
        other.set_default_size(300, 200)
        inside = button("Other")
        other.set_child(inside) if FOUR else other.add(inside)
        other.present() if FOUR else other.show_all()
        others.append(other)
    recorder.write("done", command=line.strip())
    return GLib.SOURCE_CONTINUE


GLib.io_add_watch(sys.stdin.fileno(), GLib.IO_IN | GLib.IO_HUP, command)


def drawn(*_):
    recorder.write("ready")
    return GLib.SOURCE_REMOVE


if FOUR:
    window.set_child(box)
    window.connect("close-request", lambda *_: loop.quit())
    window.connect("map", lambda *_: GLib.idle_add(drawn))
    window.present()
else:
    window.add(box)
    window.connect("destroy", lambda *_: loop.quit())
    window.connect("map-event", lambda *_: GLib.idle_add(drawn) and False)
    window.show_all()
loop.run()
