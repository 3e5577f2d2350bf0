#!/usr/bin/env bash
# Proves a set-up script on a clean Debian machine: it must install everything that it names, and then find it installed.
# Changes the machine, so run it in a container:
#
#   docker run --rm --volume "$PWD:/hoptax:ro" debian:13 /hoptax/scripts/prove-set-up.sh WHAT
#
# WHAT is check, demo, test or bench (scripts/setup.sh), gateways-extra, kubernetes-lab or kubernetes-cluster. For test and bench,
# use debian:12: Debian 13 has no package of Traffic Server.
set -euo pipefail
source=$(cd "$(dirname "$0")/.." && pwd)
what=${1:-}
tools=${HOPTAX_HOME:-${XDG_DATA_HOME:-$HOME/.local/share}/hoptax}/tools/bin

say() { echo "prove-set-up: $*" >&2; }
fail() { say "$@"; exit 1; }

case $what in
check | demo) command=(scripts/setup.sh "$what") needs=(cargo golang-go git) ;;
test | bench) command=(scripts/setup.sh "$what") needs=(cargo golang-go git nodejs npm) ;;
gateways-extra) command=(scripts/gateways-extra.sh) needs=(default-jdk-headless maven nodejs npm golang-go git python3-venv) ;;
kubernetes-lab | kubernetes-cluster) command=("scripts/$what.sh" build) needs=(golang-go git) ;;
*)
    sed -n '2,/^set/s/^# \{0,1\}//p' "$0" >&2
    exit 2
    ;;
esac
[ "$(id -u)" = 0 ] || fail "installing packages needs root"
[ ! -e "$tools" ] || fail "$tools exists, so this machine is not clean"

# The scripts say themselves what they need beforehand: a compiler, and programs that build gateways.
apt-get update -qq
DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends ca-certificates "${needs[@]}" >/dev/null

# A copy, because builds may write into the project.
copy=$(mktemp -d)
cp -R "$source"/{scripts,gateways,Cargo.toml} "$copy"
cd "$copy"

# Prints the programs that the script has not installed.
missing() {
    local name binary
    case $what in
    gateways-extra)
        scripts/gateways-extra.sh --list | while read -r name _ binary _; do
            [ -x "$tools/$binary" ] || echo "$name"
        done
        ;;
    kubernetes-lab) [ -x "$tools/kube-apiserver" ] || echo kube-apiserver ;;
    kubernetes-cluster)
        for name in kube-{apiserver,controller-manager,scheduler,proxy} kubelet; do
            [ -x "$tools/$name" ] || echo "$name"
        done
        ;;
    *) grep '^set-up: not installed' "$1" || true ;;
    esac
}

log=$(mktemp)
for run in first second; do
    say "$run run of ${command[*]}"
    "${command[@]}" 2>&1 | tee "$log" || fail "the $run run failed"
    absent=$(missing "$log")
    [ -z "$absent" ] || fail "not installed after the $run run: $absent"
done
! grep -E ': (installing|building) ' "$log" || fail "the second run installed something again"
say "$what holds on a clean machine"
