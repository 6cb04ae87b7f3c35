"""The other party at the clipboard: wl-clipboard's programs, run as the session's user."""

import os
import pathlib
import subprocess

from session import wait_until

SECRET_HINT = "x-kde-passwordManagerHint"


class Clipboard:
    """What a person does to the clipboard; `end` ends what it started."""

    def __init__(self, session):
        self.session, self.started = session, []

    def _options(self):
        user = self.session.user
        return {"user": user, "group": user, "extra_groups": []} if user is not None else {}

    def copy(self, data, mime=None, *arguments):
        """Copies bytes or a text and returns once the compositor has it."""
        data = data.encode() if isinstance(data, str) else data
        argv = ["wl-copy", "--foreground", *(["--type", mime] if mime else []), *arguments]
        child = self.session.spawn(argv, log="wl-copy", stdin=subprocess.PIPE)
        child.stdin.write(data)
        child.stdin.close()
        self.started.append(child)
        wait_until(lambda: self.paste(mime, *(a for a in arguments if a == "--primary")) == data, "the copy", 10)
        return child

    def clear(self):
        """Both selections."""
        for which in ([], ["--primary"]):
            subprocess.run(["wl-copy", "--clear", *which], env=self.session.environment(), check=True, timeout=10, **self._options())
            wait_until(lambda: self.types(*which) == [], "an empty clipboard")

    def paste(self, mime=None, *arguments, timeout=10):
        """The clipboard's bytes in this type; None when there are none."""
        argv = ["wl-paste", "--no-newline", *(["--type", mime] if mime else []), *arguments]
        done = subprocess.run(argv, env=self.session.environment(), capture_output=True, timeout=timeout, **self._options())
        return done.stdout if done.returncode == 0 else None

    def types(self, *arguments):
        done = subprocess.run(
            ["wl-paste", "--list-types", *arguments],
            env=self.session.environment(), capture_output=True, text=True, timeout=10, **self._options(),
        )  # fmt: skip
        return done.stdout.split("\n")[:-1] if done.returncode == 0 else []

    def watch(self, command):
        """A clipboard manager: runs the shell command for each copy, its content on standard input."""
        child = self.session.spawn(["wl-paste", "--watch", "sh", "-c", command], log="manager")
        self.started.append(child)
        return child

    def later_reader(self, mime="text/plain", delay=2.0):
        """Asks for the content at once and takes it only after `delay` seconds; returns (process, file)."""
        target = self.session.directory("late") / "read"
        argv = ["sh", "-c", f"wl-paste --no-newline --type {mime} | (sleep {delay}; cat) > '{target}.part'; mv '{target}.part' '{target}'"]
        child = self.session.spawn(argv, log="late-reader")
        self.started.append(child)
        return child, target

    def end(self):
        for child in self.started:
            self.session.end(child)
        self.started = []


def caretakers(desk):
    """The processes of the program under test that own a clipboard."""
    found = []
    for entry in pathlib.Path("/proc").glob("[0-9]*"):
        try:
            if os.readlink(entry / "exe") == str(desk.program) and b"clipboard" in (entry / "cmdline").read_bytes().split(b"\0")[1:2]:
                found.append(int(entry.name))
        except OSError:
            continue
    return found
