#!/usr/bin/env bash
# The step "Install hoptax" of action.yml. Reads INSTALL and VERSION, and adds a directory to PATH for later steps.
set -euo pipefail
cd "$(dirname "$0")/../.."
releases=${HOPTAX_RELEASES:-https://github.com/hoptax/hoptax/releases/download}
folder=$RUNNER_TEMP/hoptax-program

fail() { echo "::error title=hoptax::$*"; exit 1; }

need_version() {
    [[ $VERSION =~ ^[0-9]+\.[0-9]+\.[0-9]+[0-9A-Za-z.-]*$ ]] ||
        fail "install: $INSTALL needs a version such as 0.2.0, not '$VERSION'"
}

# The release's archive for this machine, checked against the release's checksums.
from_release() {
    local file
    file=hoptax-$VERSION-$(uname -m)-unknown-linux-musl.tar.gz
    mkdir -p "$folder/bin"
    cd "$folder"
    curl --fail --silent --show-error --location --remote-name-all "$releases/v$VERSION/"{"$file",SHA256SUMS} ||
        fail "cannot download $file of release v$VERSION"
    grep -F "  $file" SHA256SUMS >expected || fail "SHA256SUMS of release v$VERSION does not list $file"
    sha256sum --check --quiet expected || fail "$file does not have the checksum in SHA256SUMS"
    tar -xzf "$file" --strip-components 1 --directory bin
}

from_pypi() {
    python3 -m venv "$folder"
    "$folder/bin/pip" install --quiet --disable-pip-version-check "hoptax==$VERSION" ||
        fail "cannot install hoptax $VERSION from PyPI"
}

from_source() {
    command -v cargo >/dev/null || fail "install: source needs cargo. Install Rust in a step before this one"
    # A request costs as much as with the profile `release`, which compiles for longer.
    cargo build --profile demo --locked --package hoptax --target-dir "$folder/target"
    mkdir -p "$folder/bin"
    cp "$folder/target/demo/hoptax" "$folder/bin/hoptax"
}

case $INSTALL in
source) from_source ;;
release) need_version && from_release ;;
pypi) need_version && from_pypi ;;
path)
    command -v hoptax >/dev/null || fail "install: path needs hoptax on PATH"
    exit 0
    ;;
*) fail "install is '$INSTALL'; it must be source, release, pypi or path" ;;
esac
"$folder/bin/hoptax" --version
echo "$folder/bin" >>"$GITHUB_PATH"
