"""The figures of BENCHMARKS.md for HTTP: requests per second and p99 by wrk, ours and rmcp's by turns, memory afterwards.

    python3 over_http.py OURS RMCP BARE

OURS is the `noop-http` example of transports/http, RMCP the `rmcp-http` and BARE the `hyper-bare` of this folder.
Each runs with one thread, and with two beside the load generator.
"""

import json
import pathlib
import re
import statistics
import subprocess
import sys
import urllib.request

HERE = pathlib.Path(__file__).resolve().parent
ROUNDS, SECONDS = 5, 4
UNITS = {"us": 0.001, "ms": 1.0, "s": 1000.0}


class Server:
    def __init__(self, argv):
        self.process = subprocess.Popen(argv, stdout=subprocess.PIPE, text=True)
        told = self.process.stdout.readline().strip()
        self.url = told if told.startswith("http") else f"http://127.0.0.1:{told}/mcp"

    def memory(self, what="VmRSS"):
        status = pathlib.Path(f"/proc/{self.process.pid}/status").read_text()
        return int(re.search(rf"{what}:\s+(\d+)", status)[1]) / 1024

    def end(self):
        self.process.kill()
        self.process.wait()


def load(server, connections):
    argv = ["wrk", "-t1", f"-c{connections}", f"-d{SECONDS}", "--latency", "-s", str(HERE / "noop.lua"), server.url]
    text = subprocess.run(argv, capture_output=True, text=True, check=True).stdout
    assert "Non-2xx" not in text, text
    number, unit = re.search(r"99%\s+([\d.]+)(us|ms|s)", text).groups()
    return float(re.search(r"Requests/sec:\s+([\d.]+)", text)[1]), float(number) * UNITS[unit]


def image(url):
    params = {
        "name": "image",
        "_meta": {"io.modelcontextprotocol/protocolVersion": "2026-07-28", "io.modelcontextprotocol/clientCapabilities": {}},
    }
    body = json.dumps({"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": params}).encode()
    headers = {"Content-Type": "application/json", "Accept": "application/json, text/event-stream", "MCP-Protocol-Version": "2026-07-28"}
    headers |= {"Mcp-Method": "tools/call", "Mcp-Name": "image"}
    with urllib.request.urlopen(urllib.request.Request(url, body, headers)) as response:
        return len(response.read())


def main(ours, rmcp, bare):
    servers = {
        "deskhand, one thread": [ours],
        "rmcp, one thread": [rmcp, "--threads", "1"],
        "hyper alone, one thread": [bare, "1"],
        "deskhand, two threads": [ours, "0", "2"],
        "rmcp, as it comes": [rmcp],
        "hyper alone, two threads": [bare, "2"],
    }
    running = {name: Server(argv) for name, argv in servers.items()}
    try:
        for connections in (10, 50):
            figures = {name: [] for name in running}
            for _ in range(ROUNDS):
                for name, server in running.items():
                    figures[name].append(load(server, connections))
            middle = {n: [statistics.median(column) for column in zip(*rows)] for n, rows in figures.items()}
            names = list(figures)
            for at, name in enumerate(names):
                rate, p99 = middle[name]
                own = names[at // 3 * 3]
                ratios = [a[0] / b[0] for a, b in zip(figures[own], figures[name])]
                print(f"{connections} connections, {name}: {rate:.0f}/s, p99 {p99:.2f} ms; {own} does {statistics.median(ratios):.2f} times that")
        for name, server in running.items():
            print(f"{name}: {server.memory():.1f} MB resident after the run")
    finally:
        for server in running.values():
            server.end()
    server = Server([ours])
    try:
        image(server.url)
        before = server.memory()
        pathlib.Path(f"/proc/{server.process.pid}/clear_refs").write_text("5")
        size = [image(server.url) for _ in range(100)][0]
        print(f"an image answer of {size / 1e6:.1f} MB: {server.memory('VmHWM') - before:.1f} MB above idle at the peak of 100")
    finally:
        server.end()


if __name__ == "__main__":
    main(*sys.argv[1:])
