#!/usr/bin/env bash
# Everything that CI runs: the Rust tests of all crates, the core's purity, then the program on real sessions.
# On Debian 12 it installs what it needs (as root, or by sudo). Nothing of the person's own desktop is touched.
set -uo pipefail
cd "$(dirname "$0")/.."

packages=(sway foot wl-clipboard xvfb xdotool grim l3afpad dbus at-spi2-core xkb-data fonts-dejavu-core util-linux python3-gi gir1.2-gtk-3.0 gir1.2-gtk-4.0 gcc libc6-dev)
missing=()
for package in "${packages[@]}"; do
    [ "$(dpkg-query -W -f='${Status}' "$package" 2>/dev/null)" = "install ok installed" ] || missing+=("$package")
done
if [ ${#missing[@]} -gt 0 ]; then
    echo "test: installing ${missing[*]}" >&2
    sudo=(); [ "$(id -u)" = 0 ] || sudo=(sudo)
    "${sudo[@]}" apt-get update -qq &&
        "${sudo[@]}" env DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends "${missing[@]}" >&2 || exit 1
fi

failed=0
run() { echo "test: $*" >&2; "$@" || { echo "test: FAILED: $*" >&2; failed=1; }; }

run cargo test --workspace --quiet --no-fail-fast
if cargo clippy --version >/dev/null 2>&1; then
    run cargo clippy --quiet -p deskhand-core --no-deps -- -D clippy::disallowed_methods -D clippy::disallowed_types
fi
run cargo build --quiet -p deskhand
DESKHAND=${CARGO_TARGET_DIR:-$PWD/target}/debug/deskhand run conformance/live/run.sh -q
run conformance/suite/run.sh
run conformance/clients/fixtures/run.sh -q
exit $failed
