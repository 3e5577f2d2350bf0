#!/usr/bin/env bash
# Builds the gateways that nothing can be installed of, each from the project in its pack, into the tools directory. It takes minutes
# and hundreds of megabytes, so it stands outside set-up and CI.
#
#   scripts/gateways-extra.sh              all of them
#   scripts/gateways-extra.sh NAME …       these packs
#   scripts/gateways-extra.sh --list       what there is to build: pack, folder, program, and what it needs
#
# Repeatable: what was built from the same project is left alone. Where something is missing it is named, and the others
# are built all the same; the exit status is 1 only where a build failed.
set -u

here=$(cd "$(dirname "$0")/.." && pwd)
home=${HOPTAX_HOME:-${XDG_DATA_HOME:-$HOME/.local/share}/hoptax}
tools=$home/tools
packs=${HOPTAX_PACKS:-$here/gateways}

# value KEY FILE: what stands behind a key of its own line, at any depth, the brackets of a list taken off.
value() { sed -n "s/^ *$1: *\[\{0,1\}\([^]#]*\)\]\{0,1\}.*/\1/p" "$2" | head -n 1 | tr -d ','; }

# The keys of `build:` stand on the lines below it.
build_block() { sed -n '/^build:/,/^[^ b#]/p' "$1"; }

listed() { # every pack with a project: name, folder, program, needs
    local manifest block
    for manifest in "$packs"/*/gateway.yaml; do
        grep -q '^build:' "$manifest" || continue
        block=$(mktemp)
        build_block "$manifest" >"$block"
        echo "$(value name "$manifest") $(value folder "$block") $(value binary "$manifest") $(value needs "$block")"
        rm -f "$block"
    done
}

if [ "${1:-}" = --list ]; then
    listed
    exit 0
fi

failed=0
while read -r name folder binary needs; do
    if [ $# -gt 0 ] && [[ " $* " != *" $name "* ]]; then continue; fi
    for program in $needs; do
        command -v "$program" >/dev/null 2>&1 && continue
        echo "gateways-extra: $name is left out: it needs $program, which is not installed"
        continue 2
    done
    project=$packs/$name/$folder
    # What it is built from, and where to: the launcher knows its place.
    state=$({ cd "$project" && find . -type f | LC_ALL=C sort | xargs -d '\n' sha256sum; echo "$tools"; } | sha256sum)
    if [ -x "$tools/bin/$binary" ] && [ "$(cat "$tools/$name/.built-from" 2>/dev/null)" = "$state" ]; then
        echo "gateways-extra: $name is there"
        continue
    fi
    echo "gateways-extra: building $name; this takes minutes"
    rm -rf "${tools:?}/$name"
    mkdir -p "$tools/$name" "$tools/bin"
    # In a copy, so that nothing is left in the pack.
    copy=$(mktemp -d)
    cp -R "$project/." "$copy"
    if (cd "$copy" && sh ./build.sh "$tools/$name") </dev/null >"$home/$name.log" 2>&1 &&
        [ -x "$tools/$name/bin/$binary" ]; then
        ln -sf "$tools/$name/bin/$binary" "$tools/bin/$binary"
        echo "$state" >"$tools/$name/.built-from"
        echo "gateways-extra: $name is built: $tools/bin/$binary"
    else
        echo "gateways-extra: $name could not be built; the end of $home/$name.log:" >&2
        tail -n 15 "$home/$name.log" >&2
        failed=1
    fi
    rm -rf "$copy"
done < <(listed)
exit $failed
