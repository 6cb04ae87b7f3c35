"""The official clients drive the server through an agent's session."""

import json
import os
import pathlib
import shutil
import subprocess
import sys

import pytest

from conftest import POLICY
from session import HERE, wait_until

CLIENTS = HERE.parent / "clients"
TEXT = "héllo from a client"
RUNS = [
    ("python_client.py", "legacy"),
    ("python_client.py", "auto"),
    ("python_client.py", "2026-07-28"),
    ("typescript_client.mjs", "legacy"),
    ("typescript_client.mjs", "auto"),
    ("typescript_client.mjs", "2026-07-28"),
    ("typescript_sdk.mjs", "legacy"),
]

pytestmark = pytest.mark.timeout(150)


@pytest.fixture(scope="module")
def node():
    """The folder with node_modules ($DESKHAND_LIVE_NODE, made by run.sh), the scripts copied into it."""
    folder = os.environ.get("DESKHAND_LIVE_NODE")
    if not folder or not shutil.which("node"):
        pytest.skip("DESKHAND_LIVE_NODE names no folder with the npm packages")
    for script in CLIENTS.glob("*.mjs"):
        shutil.copy(script, folder)
    return pathlib.Path(folder)


@pytest.mark.parametrize("script, era", RUNS, ids=[f"{script.split('.')[0]}-{era}" for script, era in RUNS])
def test_session(desk, script, era, request):
    if script.endswith(".py"):
        runner = [sys.executable, str(CLIENTS / script)]
    else:
        runner = ["node", str(request.getfixturevalue("node") / script)]
    field = desk.entry(3)
    environment = os.environ | desk.environment(POLICY) | {"PATH": os.environ["PATH"]}
    server = [str(desk.program), "mcp"]
    if desk.session.user is not None:
        ids = [f"--reuid={desk.session.user}", f"--regid={desk.session.user}", "--clear-groups"]
        server = ["setpriv", *ids, *server]
    done = subprocess.run(
        [*runner, era, field.app_id, TEXT, "--", *server],
        env=environment,
        capture_output=True,
        text=True,
        timeout=120,
    )
    assert done.returncode == 0, done.stderr[-3000:]
    report = json.loads(done.stdout)
    print(report)
    expected = "2025-11-25" if era == "legacy" else "2026-07-28"
    assert report.get("protocol") in {expected, None}, report
    assert report["screenshot"][0] == 800 and report["closed"] == "closed", report
    wait_until(lambda: field.text() == TEXT, "the client's text in the field", 5)
