"""An idle keyboard and pointer on a Wayland seat, held by one plain socket.

A seat without devices has no capabilities, and an application that starts on it binds nothing: the first keys of the
first virtual keyboard are then lost. So every test session makes these two before any application starts. They also
play the person: a press on them is what a real keyboard or mouse would send.

Needs no Wayland library. As a program it holds the devices until its standard input ends:
`python3 seat.py /path/to/wayland-socket us`.
"""

import array
import ctypes
import os
import socket
import struct
import sys
import time

BTN_LEFT = 0x110


def compile_keymap(layout):
    """The text of the keymap that the layout (`us`, `de`, `fr`) has with evdev's rules, by libxkbcommon."""

    class RuleNames(ctypes.Structure):
        _fields_ = [(name, ctypes.c_char_p) for name in ("rules", "model", "layout", "variant", "options")]

    xkb = ctypes.CDLL("libxkbcommon.so.0")
    for name in ("xkb_context_new", "xkb_keymap_new_from_names", "xkb_keymap_get_as_string"):
        getattr(xkb, name).restype = ctypes.c_void_p
    context = ctypes.c_void_p(xkb.xkb_context_new(0))
    names = RuleNames(b"evdev", b"pc105", layout.encode(), b"", b"")
    keymap = ctypes.c_void_p(xkb.xkb_keymap_new_from_names(context, ctypes.byref(names), 0))
    if not keymap:
        raise ValueError(f"libxkbcommon knows no layout {layout!r}; is xkb-data installed?")
    text = ctypes.c_void_p(xkb.xkb_keymap_get_as_string(keymap, 1))
    result = ctypes.string_at(text).decode()
    xkb.xkb_keymap_unref(keymap)
    xkb.xkb_context_unref(context)
    return result


class Seat:
    """Holds one virtual keyboard and one virtual pointer on the compositor's first seat."""

    WANTED = {
        "wl_seat": 1,
        "zwp_virtual_keyboard_manager_v1": 1,
        "zwlr_virtual_pointer_manager_v1": 1,
    }

    def __init__(self, path, layout="us", deadline=10.0):
        self._socket = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        self._socket.settimeout(deadline)
        self._socket.connect(path)
        self._next = 2
        self._registry = self._id()
        self._send(1, 1, struct.pack("=I", self._registry))
        found = self._globals()
        missing = [name for name in self.WANTED if name not in found]
        if missing:
            raise RuntimeError(f"the compositor doesn't offer {', '.join(missing)}")
        seat, keyboards, pointers = (self._bind(found[name], name, version) for name, version in self.WANTED.items())
        self.keyboard, self.pointer = self._id(), self._id()
        self._send(keyboards, 0, struct.pack("=II", seat, self.keyboard))
        self._send_keymap(compile_keymap(layout))
        self._send(pointers, 0, struct.pack("=II", seat, self.pointer))
        self.sync()

    def key(self, code, pressed=True, modifiers=0):
        """Presses or releases one key, by its evdev code; `modifiers` is the mask that holds from now on."""
        self._send(self.keyboard, 1, struct.pack("=III", self._time(), code, int(pressed)))
        self._send(self.keyboard, 2, struct.pack("=IIII", modifiers, 0, 0, 0))
        self.sync()

    def tap(self, code):
        self.key(code, True)
        self.key(code, False)

    def move(self, dx, dy):
        """Moves the pointer by logical pixels."""
        self._send(self.pointer, 0, struct.pack("=Iii", self._time(), int(dx * 256), int(dy * 256)))
        self._send(self.pointer, 4, b"")
        self.sync()

    def move_to(self, x, y, width, height):
        """Moves the pointer to (x, y) of the layout's bounding box, whose size is (width, height)."""
        self._send(self.pointer, 1, struct.pack("=IIIII", self._time(), x, y, width, height))
        self._send(self.pointer, 4, b"")
        self.sync()

    def button(self, pressed=True, code=BTN_LEFT):
        self._send(self.pointer, 2, struct.pack("=III", self._time(), code, int(pressed)))
        self._send(self.pointer, 4, b"")
        self.sync()

    def click(self, code=BTN_LEFT):
        self.button(True, code)
        self.button(False, code)

    def sync(self):
        """Waits until the compositor has handled everything sent before."""
        callback = self._id()
        self._send(1, 0, struct.pack("=I", callback))
        while True:
            sender, opcode, body = self._receive()
            if sender == callback:
                return
            if sender == 1 and opcode == 0:
                target, code, length = struct.unpack_from("=III", body)
                raise RuntimeError(f"wayland error {code} on object {target}: {body[12 : 11 + length].decode()}")

    def close(self):
        self._socket.close()

    def _globals(self):
        callback = self._id()
        self._send(1, 0, struct.pack("=I", callback))
        found = {}
        while True:
            sender, opcode, body = self._receive()
            if sender == callback:
                return found
            if sender == self._registry and opcode == 0:
                name, length = struct.unpack_from("=II", body)
                found.setdefault(body[8 : 7 + length].decode(), name)

    def _bind(self, name, interface, version):
        new = self._id()
        text = interface.encode() + b"\0"
        padded = text + b"\0" * (-len(text) % 4)
        self._send(self._registry, 0, struct.pack("=II", name, len(text)) + padded + struct.pack("=II", version, new))
        return new

    def _send_keymap(self, text):
        data = text.encode()  # Smithay refuses a keymap whose size counts the final NUL; wlroots takes both
        fd = os.memfd_create("keymap", os.MFD_CLOEXEC)
        try:
            os.write(fd, data + b"\0")
            body = struct.pack("=II", 1, len(data))
            message = struct.pack("=II", self.keyboard, (8 + len(body)) << 16) + body
            rights = [(socket.SOL_SOCKET, socket.SCM_RIGHTS, array.array("i", [fd]))]
            self._socket.sendmsg([message], rights)
        finally:
            os.close(fd)

    def _send(self, target, opcode, body):
        self._socket.sendall(struct.pack("=II", target, (8 + len(body)) << 16 | opcode) + body)

    def _receive(self):
        sender, word = struct.unpack("=II", self._exactly(8))
        return sender, word & 0xFFFF, self._exactly((word >> 16) - 8)

    def _exactly(self, count):
        data = b""
        while len(data) < count:
            part = self._socket.recv(count - len(data))
            if not part:
                raise ConnectionError("the compositor closed the connection")
            data += part
        return data

    def _id(self):
        new, self._next = self._next, self._next + 1
        return new

    @staticmethod
    def _time():
        return int(time.monotonic() * 1000) & 0xFFFFFFFF


if __name__ == "__main__":
    held = Seat(sys.argv[1], sys.argv[2] if len(sys.argv) > 2 else "us")
    print("ready", flush=True)
    sys.stdin.read()
    held.close()
