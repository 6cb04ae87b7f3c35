#!/usr/bin/env bash
# The official MCP conformance suite, every revision it knows, against the fixture server named by $DESKHAND_FIXTURES
# (or built here). Prints a table; exits with 1 if anything failed, was only warned of, or wasn't exercised.
#
#   conformance/suite/run.sh [RUN...]      the runs' names are in the table; without any, all
#
# The suite and a Node for it come by npm and go to target/suite alone ($DESKHAND_SUITE_CACHE). Needs npm.
set -euo pipefail

here=$(cd "$(dirname "$0")" && pwd)
root=$(cd "$here/../.." && pwd)
cache=${DESKHAND_SUITE_CACHE:-${CARGO_TARGET_DIR:-$root/target}/suite}
results=$cache/results

say() { echo "suite: $*" >&2; }

runs=(
    "required-2025-11-25 --requirements 2025-11-25"
    "required-2026-07-28 --requirements 2026-07-28"
    "all-2025-03-26 --suite all --spec-version 2025-03-26"
    "all-2025-06-18 --suite all --spec-version 2025-06-18"
    "all-2025-11-25 --suite all --spec-version 2025-11-25"
    "all-2026-07-28 --suite all --spec-version 2026-07-28"
    # Only without a revision do extensions run.
    "all-with-extensions --suite all"
)
is_run() {
    for run in "${runs[@]}"; do
        [ "${run%% *}" != "$1" ] || return 0
    done
    return 1
}
for name in "$@"; do
    is_run "$name" || { say "no run is named $name; there are: ${runs[*]%% *}"; exit 2; }
done

. "$here/../node22.sh"
node22 "$cache" "$here/package.json"

if [ -z "${DESKHAND_FIXTURES:-}" ]; then
    say "DESKHAND_FIXTURES names no program: building it"
    cargo build --quiet --manifest-path "$root/Cargo.toml" -p deskhand-fixtures >&2
    DESKHAND_FIXTURES=${CARGO_TARGET_DIR:-$root/target}/debug/fixture-server
fi

server=
end_server() {
    [ -z "$server" ] || { kill "$server" 2>/dev/null && wait "$server" || true; }
}
trap end_server EXIT
coproc SERVER { exec "$DESKHAND_FIXTURES" --http 0; }
server=$SERVER_PID
# Bash closes it when the server ends, whenever that is.
exec {from_server}<&"${SERVER[0]}"
if ! read -r -t 30 url <&"$from_server"; then
    say "$DESKHAND_FIXTURES ended, or printed no URL within 30 s"
    exit 1
fi
say "testing $DESKHAND_FIXTURES at $url, Node $(node --version)"

rm -rf "$results"
mkdir -p "$results"
for run in "${runs[@]}"; do
    read -r name arguments <<<"$run"
    if [ $# -gt 0 ] && [[ " $* " != *" $name "* ]]; then
        continue
    fi
    say "$arguments"
    mkdir "$results/$name"
    code=0
    # shellcheck disable=SC2086
    timeout 600 node "$cache/node_modules/@modelcontextprotocol/conformance/dist/index.js" server --url "$url" $arguments \
        --expected-failures "$here/expected-failures.yml" --output-dir "$results/$name/checks" >"$results/$name/log" 2>&1 || code=$?
    echo "$code" >"$results/$name/exit"
done

ended=0
kill "$server" 2>/dev/null || say "the server ended on its own"
wait "$server" || ended=$?
server=
failed=0
node "$here/summary.mjs" "$results" "$here/expected-failures.yml" || failed=1
if [ "$ended" -ne 0 ]; then
    say "the server ended with $ended instead of 0"
    failed=1
fi
exit $failed
