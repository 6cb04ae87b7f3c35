"""A private desktop for tests: headless sway with its own runtime directory, session bus and input devices.

Nothing of the person's own desktop is touched. Started by root, everything runs as `nobody` (sway refuses root).
Each wait ends at a condition or a deadline.
"""

import contextlib
import ctypes
import json
import os
import pathlib
import re
import shutil
import signal
import socket
import struct
import subprocess
import tempfile
import time

from seat import Seat

HERE = pathlib.Path(__file__).resolve().parent
PYTHON = "/usr/bin/python3"  # the one that has Debian's python3-gi
NOBODY = 65534
DEFAULT_OUTPUTS = (
    {"mode": "1920x1080", "pos": "0 0", "scale": "1", "transform": "normal"},
    {"mode": "1280x800", "pos": "1920 0", "scale": "1.5", "transform": "90"},
)
CONFIG = """
xwayland disable
default_border none
default_floating_border none
for_window [app_id="^floating"] floating enable
seat * hide_cursor 0
mouse_warping none
bindsym Mod4+Return nop bound
bindsym Ctrl+Alt+F9 nop bound
"""


def wait_until(condition, what, deadline=10.0, every=0.01):
    """The first true value of `condition()`; an AssertionError that says `what` after `deadline` seconds."""
    end = time.monotonic() + deadline
    while True:
        value = condition()
        if value:
            return value
        if time.monotonic() > end:
            raise AssertionError(f"not within {deadline:g} s: {what}")
        time.sleep(every)


class Session:
    """One headless sway. Use as a context manager, or call `start` and `close`."""

    def __init__(self, layout="us", outputs=DEFAULT_OUTPUTS, config="", bus=True):
        self.layout, self.layouts_of_outputs, self.extra_config, self.with_bus = layout, outputs, config, bus
        self.base = pathlib.Path(tempfile.mkdtemp(prefix="deskhand-live-"))
        self.runtime, self.home = self.base / "run", self.base / "home"
        self.user = NOBODY if os.geteuid() == 0 else None
        self.children, self.logs = [], {}
        self.seat = self.sway = self.bus_address = None
        self.wayland_display = "wayland-1"

    def __enter__(self):
        try:
            return self.start()
        except BaseException:
            self.close()
            raise

    def __exit__(self, *_):
        self.close()

    def start(self):
        self.base.chmod(0o755)
        for path in (self.runtime, self.home):
            path.mkdir(mode=0o700)
            self.give(path)
        shutil.copytree(HERE / "windows", self.base / "windows", ignore=shutil.ignore_patterns("__pycache__"))
        if self.with_bus:
            self._start_bus()
        self.start_sway()
        return self

    def start_sway(self):
        """Starts the compositor, and its idle keyboard and pointer; also again after `stop_sway`."""
        lines = [CONFIG, f"input * xkb_layout {self.layout}", self.extra_config]
        for number, output in enumerate(self.layouts_of_outputs, 1):
            lines.append(f"output {self.output_name(number)} " + " ".join(f"{key} {value}" for key, value in output.items()))
        config = self.runtime / "config"
        config.write_text("\n".join(lines) + "\n")
        config.chmod(0o644)
        for stale in self.runtime.glob("wayland-*"):
            stale.unlink()
        environment = self.bare_environment() | self.backend_environment()
        self.sway = self.spawn(["sway", "-c", str(config)], environment, log="sway")
        ready = wait_until(lambda: self._alive(self.sway, "sway") and self._sockets(), "sway's sockets", 15)
        self.wayland_display, self.sway_socket = ready
        wait_until(lambda: len(self.outputs()) == len(self.layouts_of_outputs), "sway's outputs", 15)
        self.seat = Seat(str(self.runtime / self.wayland_display), self.layout)
        self.message(f"focus output {self.output_name(1)}")

    def backend_environment(self):
        """What makes sway headless."""
        return {
            "WLR_BACKENDS": "headless",
            "WLR_RENDERER": "pixman",
            "WLR_LIBINPUT_NO_DEVICES": "1",
            "WLR_HEADLESS_OUTPUTS": str(len(self.layouts_of_outputs)),
        }

    def output_name(self, number):
        return f"HEADLESS-{number}"

    def stop_sway(self):
        if self.seat:
            self.seat.close()
            self.seat = None
        if self.sway:
            self.end(self.sway)

    def close(self):
        """Ends everything that was started here, newest first, and removes the directory."""
        if self.seat:
            self.seat.close()
        for child in reversed(self.children):
            self.end(child)
        for log in self.logs.values():
            log.close()
        shutil.rmtree(self.base, ignore_errors=True)

    # Processes

    def spawn(self, argv, environment=None, log=None, **options):
        """Starts a program as the session's user, in its own process group; it dies with us."""
        if "stderr" not in options:
            options["stderr"] = self._log(log or pathlib.Path(argv[0]).name)
        options.setdefault("stdout", options["stderr"])
        options.setdefault("stdin", subprocess.DEVNULL)
        if self.user is not None:
            options |= {"user": self.user, "group": self.user, "extra_groups": []}
        child = subprocess.Popen(
            argv,
            env=self.environment() if environment is None else environment,
            cwd=self.home,
            start_new_session=True,
            preexec_fn=_die_with_parent,
            **options,
        )
        self.children.append(child)
        return child

    def end(self, child, patience=3.0):
        """Asks the process group to end, then insists."""
        if child in self.children:
            self.children.remove(child)
        if child.poll() is not None:
            return
        for number in (signal.SIGTERM, signal.SIGKILL):
            for wake in (number, signal.SIGCONT):
                with contextlib.suppress(ProcessLookupError, PermissionError):
                    os.killpg(child.pid, wake)
            try:
                child.wait(patience)
                break
            except subprocess.TimeoutExpired:
                continue
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(child.pid, signal.SIGKILL)

    def log_text(self, name):
        path = self.base / f"{name}.log"
        return path.read_text(errors="replace") if path.exists() else ""

    def bare_environment(self):
        """What a login would give, without a display."""
        environment = {
            "PATH": "/usr/local/bin:/usr/bin:/bin",
            "HOME": str(self.home),
            "LANG": "C.UTF-8",
            "SHELL": "/bin/sh",  # that of nobody ends at once, and a terminal with it
            "XDG_RUNTIME_DIR": str(self.runtime),
            "XDG_CONFIG_HOME": str(self.home / ".config"),
            "XDG_STATE_HOME": str(self.home / ".local/state"),
            "GSETTINGS_BACKEND": "memory",
            "NO_AT_BRIDGE": "0" if self.with_bus else "1",
        }
        if self.bus_address:
            environment["DBUS_SESSION_BUS_ADDRESS"] = self.bus_address
        return environment

    def environment(self):
        """What an application or a server of this desktop gets."""
        return self.bare_environment() | {
            "WAYLAND_DISPLAY": self.wayland_display,
            "SWAYSOCK": str(self.sway_socket),
            "XDG_CURRENT_DESKTOP": "sway",
            "XDG_SESSION_TYPE": "wayland",
            "GDK_BACKEND": "wayland",
            "GSK_RENDERER": "cairo",
        }

    def give(self, path):
        """Makes the session's user the owner."""
        if self.user is not None:
            os.chown(path, self.user, self.user)
        return path

    def directory(self, name):
        """A new 0700 directory of the session's user."""
        path = pathlib.Path(tempfile.mkdtemp(prefix=f"{name}-", dir=self.home))
        return self.give(path)

    # The compositor

    def message(self, command):
        """Runs a sway command (what `swaymsg COMMAND` does); a refusal is an error."""
        replies = self._ipc(0, command)
        for reply in replies:
            if not reply.get("success"):
                raise RuntimeError(f"sway: {command}: {reply.get('error')}")
        return replies

    def outputs(self):
        return [output for output in self._ipc(3) if output.get("active")]

    def output(self, name):
        return next(output for output in self.outputs() if output["name"] == name)

    def extent(self):
        """The size of the layout's bounding box, whose origin is (0, 0)."""
        rectangles = [output["rect"] for output in self.outputs()]
        return (
            max(rectangle["x"] + rectangle["width"] for rectangle in rectangles),
            max(rectangle["y"] + rectangle["height"] for rectangle in rectangles),
        )

    def inputs(self):
        return self._ipc(100)

    def windows(self):
        """All windows, as sway's tree has them."""
        found = []

        def walk(node):
            if node.get("pid") and not node.get("nodes"):
                found.append(node)
            for child in node.get("nodes", []) + node.get("floating_nodes", []):
                walk(child)

        walk(self._ipc(4))
        return found

    def window(self, app_id):
        return next((window for window in self.windows() if window.get("app_id") == app_id), None)

    def wait_window(self, app_id, deadline=20.0):
        return wait_until(lambda: self.window(app_id), f"a window of {app_id}", deadline)

    def wait_gone(self, app_id, deadline=10.0):
        wait_until(lambda: not self.window(app_id), f"{app_id}'s end", deadline)

    def focused(self):
        """The focused window's app id, or None."""
        return next((window.get("app_id") for window in self.windows() if window["focused"]), None)

    def focus(self, app_id):
        self.message(f'[app_id="^{app_id}$"] focus')
        wait_until(lambda: self.focused() == app_id, f"the focus on {app_id}")

    def configure(self, output, **settings):
        """Sets `scale`, `transform`, `mode`, `pos` of an output and waits until they hold."""
        self.message(f"output {output} " + " ".join(f"{key} {value}" for key, value in settings.items()))

        def holds():
            now = self.output(output)
            return ("scale" not in settings or abs(now["scale"] - float(settings["scale"])) < 0.01) and (
                "transform" not in settings or now["transform"] == settings["transform"]
            )

        wait_until(holds, f"{output}: {settings}")

    def grim(self, output=None):
        """A screenshot by grim, as a PIL image: the peer that the server's own captures are compared with."""
        import io

        from PIL import Image

        argv = ["grim", *(["-o", output] if output else []), "-t", "png", "-"]
        options = {"user": self.user, "group": self.user, "extra_groups": []} if self.user is not None else {}
        data = subprocess.run(
            argv, env=self.environment(), capture_output=True, check=True, timeout=20, **options
        ).stdout
        return Image.open(io.BytesIO(data)).convert("RGB")

    # Applications

    def foot(self, command, app_id="foot-test"):
        """A terminal that runs a shell command; returns once its window is there."""
        argv = ["foot", "--config=/dev/null", f"--app-id={app_id}", "sh", "-c", command]
        child = self.spawn(argv, log=app_id)
        self._window_of(child, app_id)
        return child

    def foot_line(self, app_id="foot-line"):
        """A terminal whose shell writes what is typed to a file; returns (process, file)."""
        target = self.directory("foot") / "typed"
        child = self.foot(f"stty -echo; : > '{target}'; exec cat > '{target}'", app_id)
        wait_until(target.exists, "the terminal's shell")
        return child, target

    def entry(self, toolkit=3, app_id=None):
        """A GTK text field; returns a `TestWindow` whose `text()` is what stands in it."""
        return self._test_window("entry.py", toolkit, app_id or f"entry-gtk{toolkit}", [])

    def canvas(self, toolkit=3, app_id=None, output=None, fullscreen=True, size=(640, 400)):
        """The window with the decodable pattern that records its input; returns a `TestWindow`."""
        name = app_id or (f"canvas-gtk{toolkit}" if fullscreen else f"floating-gtk{toolkit}")
        window = self._test_window("canvas.py", toolkit, name, [f"{size[0]}x{size[1]}"], ready=False)
        if output:
            self.message(f'[app_id="^{name}$"] move container to output {output}')
        self.message(f'[app_id="^{name}$"] focus' + (", fullscreen enable" if fullscreen else ""))
        window.wait_ready()
        if fullscreen:
            rectangle = self.output(output or "HEADLESS-1")["rect"]
            window.wait_size(rectangle["width"], rectangle["height"])
        return window

    def form(self, toolkit=3, app_id=None, floating=True, **options):
        """A window of buttons, fields and a list (`rows=N`); returns a `TestWindow` that takes `command`s."""
        name = app_id or f"{'floating' if floating else 'tiled'}-form{toolkit}"
        arguments = [f"{key}={value}" for key, value in options.items()]
        return self._test_window("form.py", toolkit, name, arguments, stdin=subprocess.PIPE)

    def _test_window(self, script, toolkit, app_id, arguments, ready=True, **options):
        record = self.directory("window") / "record"
        record.touch()
        self.give(record)
        argv = [PYTHON, str(self.base / "windows" / script), str(toolkit), app_id, str(record), *arguments]
        child = self.spawn(argv, log=app_id, **options)
        self._window_of(child, app_id)
        window = TestWindow(self, child, app_id, record)
        if ready:
            window.wait_ready()
        return window

    def _window_of(self, child, app_id):
        def there():
            return self._alive(child, app_id) and self.window(app_id)

        wait_until(there, f"a window of {app_id}", 20)

    # Inside

    def _start_bus(self):
        address = f"unix:path={self.runtime}/bus"
        argv = ["dbus-daemon", "--session", "--nofork", "--nopidfile", f"--address={address}"]
        self.spawn(argv, self.bare_environment(), log="dbus")
        wait_until((self.runtime / "bus").exists, "the session bus")
        self.bus_address = address
        launcher = pathlib.Path("/usr/libexec/at-spi-bus-launcher")
        if launcher.exists():
            self.spawn([str(launcher), "--launch-immediately"], self.bare_environment(), log="at-spi")
            wait_until(lambda: list(self.runtime.glob("at-spi/bus*")), "the accessibility bus")

    def _sockets(self):
        ours = re.compile(rf"sway-ipc\.\d+\.{self.sway.pid}\.sock$")
        ipc = [path for path in self.runtime.glob("sway-ipc.*") if ours.search(path.name)]
        displays = [path.name for path in self.runtime.glob("wayland-?") if path.is_socket()]
        return (displays[0], ipc[0]) if displays and ipc else None

    def _ipc(self, kind, payload="", deadline=10.0):
        with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as connection:
            connection.settimeout(deadline)
            connection.connect(str(self.sway_socket))
            body = payload.encode()
            connection.sendall(b"i3-ipc" + struct.pack("=II", len(body), kind) + body)
            with connection.makefile("rb") as reader:
                length = struct.unpack("=6sII", reader.read(14))[1]
                return json.loads(reader.read(length))

    def _alive(self, child, name):
        if child.poll() is not None:
            raise AssertionError(f"{name} ended with {child.returncode}: {self.log_text(name)[-2000:]}")
        return True

    def _log(self, name):
        if name not in self.logs:
            self.logs[name] = open(self.base / f"{name}.log", "ab")
        return self.logs[name]


class NestedSession(Session):
    """sway in a window of a private X server, whose keyboard is then a real one to it: keymap, group, modifiers."""

    def start_sway(self):
        reading, writing = os.pipe()
        # Without -ac root's X server would admit nobody's clients only with a cookie; it listens on a local socket alone.
        argv = ["Xvfb", "-displayfd", str(writing), "-screen", "0", "1280x800x24", "-nolisten", "tcp", "-ac", "-noreset"]
        self.spawn(argv, self.bare_environment(), log="xvfb", pass_fds=[writing])
        os.close(writing)
        with os.fdopen(reading) as told:
            self.display = ":" + wait_until(told.readline, "the X server's number").strip()
        super().start_sway()

    def backend_environment(self):
        return {"WLR_BACKENDS": "x11", "WLR_RENDERER": "pixman", "WLR_X11_OUTPUTS": "1", "DISPLAY": self.display}

    def output_name(self, number):
        return f"X11-{number}"

    def xdotool(self, *arguments):
        subprocess.run(["xdotool", *arguments], env={**os.environ, "DISPLAY": self.display}, check=True, timeout=20)


class TestWindow:
    """A running test window and the JSON lines that it wrote."""

    __test__ = False

    def __init__(self, session, process, app_id, record):
        self.session, self.process, self.app_id, self.record = session, process, app_id, record
        self.mark = 0

    @property
    def id(self):
        return self.session.window(self.app_id)["id"]

    def all_events(self):
        lines = self.record.read_bytes().split(b"\n")[:-1]
        return [json.loads(line) for line in lines]

    def events(self, *kinds):
        """What was recorded since `forget`, of these kinds (all of them when none is named)."""
        return [event for event in self.all_events()[self.mark :] if not kinds or event["event"] in kinds]

    def forget(self):
        self.mark = len(self.all_events())

    def wait_event(self, kind, deadline=5.0, **fields):
        def found():
            matching = (event for event in self.events(kind) if all(event.get(k) == v for k, v in fields.items()))
            return next(matching, None)

        return wait_until(found, f"{kind} {fields} in {self.app_id}", deadline)

    def input_events(self):
        """Keys, buttons, wheel and motion, without what follows from appearing under a resting pointer."""
        return self.events("motion", "button", "scroll", "key", "drag")

    def command(self, line):
        """Has a form do something, and waits until it did."""
        before = sum(event["event"] == "done" for event in self.all_events())
        self.process.stdin.write(line.encode() + b"\n")
        self.process.stdin.flush()
        wait_until(lambda: sum(event["event"] == "done" for event in self.all_events()) > before, f"{line} in {self.app_id}")

    def wait_ready(self):
        wait_until(lambda: self.events("ready"), f"{self.app_id}'s first picture", 20)

    def wait_size(self, width, height):
        def holds():
            sizes = [event for event in self.all_events() if event["event"] == "size"]
            return sizes and (sizes[-1]["width"], sizes[-1]["height"]) == (width, height)

        wait_until(holds, f"{self.app_id} at {width}x{height}", 15)

    def size(self):
        last = [event for event in self.all_events() if event["event"] == "size"][-1]
        return last["width"], last["height"]

    def text(self):
        changes = [event for event in self.all_events() if event["event"] == "text"]
        return changes[-1]["text"] if changes else ""

    def close(self):
        self.session.end(self.process)
        self.session.wait_gone(self.app_id)


def _die_with_parent():
    ctypes.CDLL(None).prctl(1, signal.SIGTERM)
