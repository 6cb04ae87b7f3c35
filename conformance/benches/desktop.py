"""Measures the program on headless sway against its peers, in one run: `desktop.py` with $DESKHAND set.

screenshot: a whole call (1280 JPEG of 1920x1080, a screen full of text) against `grim` writing a PNG; p50 of 100 each,
by turns. typing: 500 characters into a terminal against `wtype`, until the file holds them. desktop_state: p50 of 500.
Prints one JSON object.
"""

import json
import os
import pathlib
import statistics
import subprocess
import sys
import time

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "live"))

from conftest import POLICY, Desk
from session import Session, wait_until
from test_text import ASCII

SCREENS, TYPINGS, STATES = 100, 5, 500
OUTPUTS = ({"mode": "1920x1080", "pos": "0 0", "scale": "1"},)


def main():
    with Session(outputs=OUTPUTS) as session:
        desk = Desk(session, os.environ["DESKHAND"])
        client = desk.server(POLICY)
        client.acquire()
        figures = screens(session, client) | typing(session, client) | states(client)
        client.close()
    print(json.dumps(figures, indent=2))


def screens(session, client):
    lines = "seq 1 4000 | sed 's/$/ the quick brown fox jumps over the lazy dog 0123456789 {}[]|~/' | fold -w 200"
    text = session.directory("text") / "done"
    terminal = session.foot(f"{lines}; : > '{text}'; exec cat", "screenful")
    session.message('[app_id="screenful"] fullscreen enable')
    wait_until(text.exists, "a screen full of text", 20)
    for _ in range(5):
        client.call("screenshot").ok()
        grim(session)
    ours, peers = [], []
    for _ in range(SCREENS):
        ours.append(timed(lambda: client.call("screenshot").ok()))
        peers.append(timed(lambda: grim(session)))
    session.end(terminal)
    return compared("screenshot_ms", ours, peers)


def grim(session):
    as_user(session, ["grim", "-o", "HEADLESS-1", str(session.runtime / "grim.png")])


def typing(session, client):
    process, target = session.foot_line()
    session.focus("foot-line")
    length, ours, peers, calls = 0, [], [], []

    def arrived():
        return target.stat().st_size == length

    # wtype has no Return in a text: the shell's file grows by whole lines only.
    for _ in range(TYPINGS):
        length += len(ASCII) + 1
        # Until the text is there; the call's answer comes later, since it also watches what changes.
        ours.append(timed(lambda: (calls.append(client.call_later("type_text", text=ASCII, submit=True)), wait_until(arrived, "text", 30, 0.0005))))
        client.result(calls.pop()).ok()
        length += len(ASCII) + 1
        command = ["wtype", ASCII, "-k", "Return"]
        peers.append(timed(lambda: (as_user(session, command), wait_until(arrived, "wtype's text", 60, 0.001))))
    session.end(process)
    return compared("type_500_ms", ours, peers)


def states(client):
    times = [timed(lambda: client.call("desktop_state").ok()) for _ in range(STATES)]
    return {"desktop_state_ms": {"p50": round(statistics.median(times), 3)}}


def as_user(session, argv):
    options = {"user": session.user, "group": session.user, "extra_groups": []} if session.user is not None else {}
    subprocess.run(argv, env=session.environment(), check=True, timeout=60, stdin=subprocess.DEVNULL, **options)


def timed(action):
    began = time.perf_counter()
    action()
    return (time.perf_counter() - began) * 1000


def compared(name, ours, peers):
    mine, other = statistics.median(ours), statistics.median(peers)
    return {name: {"p50": round(mine, 3), "peer_p50": round(other, 3), "peer_over_ours": round(other / mine, 2)}}


if __name__ == "__main__":
    sys.exit(main())
