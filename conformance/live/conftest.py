"""Fixtures: the program under test ($DESKHAND), one desktop a module, servers and windows for each test."""

import os
import pathlib
import shutil
import subprocess
import sys
import types

import pytest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))

from mcp_client import Client
from session import Session, wait_until

POLICY = """
assume_unlocked = true

[[preset]]
name = "terminal"
argv = ["foot", "--config=/dev/null", "--app-id=preset-terminal"]
app_id = "preset-terminal"
"""


@pytest.fixture(scope="session")
def binary():
    """Where the program under test is."""
    path = os.environ.get("DESKHAND")
    if not path:
        pytest.skip("DESKHAND names no program to test")
    path = pathlib.Path(path).resolve()
    assert path.is_file(), f"DESKHAND={path} is no file"
    return path


class Desk:
    """One desktop with the program under test on it."""

    def __init__(self, session, binary):
        self.session = session
        self.program = session.base / "deskhand"
        shutil.copy(binary, self.program)
        self.program.chmod(0o755)
        self.servers, self.windows, self.processes = [], [], []

    def environment(self, policy=POLICY, **changes):
        """A server's environment with a policy file of its own; a change to None takes a variable away."""
        home = self.session.directory("config")
        folder = home / "deskhand"
        folder.mkdir(mode=0o700)
        self.session.give(folder)
        if policy is not None:
            self.session.give(_write(folder / "policy.toml", policy))
        state = self.session.directory("state")
        environment = self.session.environment() | {"XDG_CONFIG_HOME": str(home), "XDG_STATE_HOME": str(state)}
        environment |= {name: value for name, value in changes.items() if value is not None}
        return {name: value for name, value in environment.items() if changes.get(name, "") is not None}

    def server(self, policy=POLICY, era="legacy", arguments=("mcp",), environment=None, initialize=True, **changes):
        """A running server that has seen the desktop, and its client."""
        environment = environment or self.environment(policy, **changes)
        log = f"deskhand-{len(self.servers)}"
        client = Client.start(
            self.session, [str(self.program), *arguments], environment, log=log, era=era, initialize=initialize
        )
        client.environment = environment
        client.audit = pathlib.Path(environment["XDG_STATE_HOME"]) / "deskhand/audit.jsonl"
        self.servers.append(client)
        return client

    def run(self, *arguments, environment=None, timeout=20, answer="", **options):
        """Runs the program to its end, e.g. `run("stop")`; `answer` is what is typed to it."""
        if self.session.user is not None:
            options |= {"user": self.session.user, "group": self.session.user, "extra_groups": []}
        return subprocess.run(
            [str(self.program), *arguments],
            env=environment or self.environment(),
            cwd=self.session.home,
            capture_output=True,
            text=True,
            timeout=timeout,
            input=answer,
            **options,
        )

    def foot_line(self, app_id="foot-line"):
        process, target = self.session.foot_line(app_id)
        self.processes.append((process, app_id))
        return process, target

    def foot(self, command, app_id="foot-test"):
        process = self.session.foot(command, app_id)
        self.processes.append((process, app_id))
        return process

    def canvas(self, *arguments, **options):
        window = self.session.canvas(*arguments, **options)
        self.windows.append(window)
        return window

    def entry(self, *arguments, **options):
        window = self.session.entry(*arguments, **options)
        self.windows.append(window)
        return window

    def form(self, *arguments, **options):
        window = self.session.form(*arguments, **options)
        self.windows.append(window)
        return window

    def reset(self):
        """Ends this test's servers and windows and clears the stop flag."""
        for client in self.servers:
            self.session.end(client.process, patience=2)
        for window in self.windows:
            self.session.end(window.process)
        for process, _ in self.processes:
            self.session.end(process)
        self.windows, self.processes = [], []
        if self.session.sway.poll() is None:
            for window in self.session.windows():
                self.session.message(f"[con_id={window['id']}] kill")
            wait_until(lambda: not self.session.windows(), "an empty desktop")
            self.session.message(f"focus output {self.session.output_name(1)}")
        self.run("resume")


def _write(path, text):
    path.write_text(text)
    path.chmod(0o600)
    return path


@pytest.fixture(scope="module")
def layout():
    return "us"


@pytest.fixture(scope="module")
def desktop(binary, layout):
    """A desktop with two outputs, the second one rotated and at scale 1.5."""
    with Session(layout=layout) as session:
        yield Desk(session, binary)


@pytest.fixture
def desk(desktop, request):
    """The module's desktop, clean again after the test."""
    first = len(desktop.servers)
    yield desktop
    if getattr(request.node, "failed", False):
        for number in range(first, len(desktop.servers)):
            print(f"--- stderr of server {number}\n{desktop.session.log_text(f'deskhand-{number}')[-3000:]}")
    desktop.reset()


@pytest.hookimpl(hookwrapper=True)
def pytest_runtest_makereport(item, call):
    outcome = yield
    if call.when == "call":
        item.failed = outcome.get_result().failed


@pytest.fixture
def held(desk):
    """A server that holds the desktop's lease, and its desk: `held.desk`, `held.client`, `held.session`."""
    client = desk.server()
    client.acquire()
    return types.SimpleNamespace(desk=desk, client=client, session=desk.session)
