#!/usr/bin/env bash
# Builds the program, the server on rmcp and the load generator, and prints the figures of BENCHMARKS.md.
set -euo pipefail
cd "$(dirname "$0")/../.."
target=${CARGO_TARGET_DIR:-$PWD/target}
cargo build --quiet --release -p deskhand
cargo build --quiet --release -p deskhand-stdio --example noop
CARGO_TARGET_DIR=$target/benches cargo build --quiet --release --manifest-path conformance/benches/Cargo.toml
"$target/benches/release/load" --server deskhand noop "$target/release/examples/noop" --server rmcp noop "$target/benches/release/rmcp-noop"
DESKHAND=$target/release/deskhand conformance/live/run.sh --collect-only -q test_harness.py >/dev/null
DESKHAND=$target/release/deskhand "${DESKHAND_LIVE_CACHE:-$target/live}/venv/bin/python" conformance/benches/desktop.py
cargo build --quiet --release -p deskhand-http --example noop-http
command -v wrk >/dev/null || { echo "benches: wrk is not installed: apt-get install wrk" >&2; exit 1; }
python3 conformance/benches/over_http.py "$target/release/examples/noop-http" "$target/benches/release/rmcp-http" "$target/benches/release/hyper-bare"
