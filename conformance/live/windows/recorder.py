"""Writes JSON lines, each at once and whole."""

import json
import os
import time


class Recorder:
    def __init__(self, path):
        self._file = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o644)

    def write(self, event, **fields):
        line = json.dumps({"event": event, "at": round(time.monotonic() * 1000, 1)} | fields, ensure_ascii=False)
        os.write(self._file, line.encode() + b"\n")
