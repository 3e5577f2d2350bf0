#!/usr/bin/env bash
# Builds the gateways that have no packages, and installs them into the tools directory. The pack of each of these
# gateways contains the project to build. Building takes minutes and hundreds of megabytes, so set-up and CI build only
# those that take seconds.
#
#   scripts/gateways-extra.sh              build all of these gateways
#   scripts/gateways-extra.sh NAME …       build the gateways of these packs
#   scripts/gateways-extra.sh --list       list the projects: pack, folder, program, requirements
#
# The script can be run again. It rebuilds a gateway only if the project has changed. If a program that the build needs
# is missing, the script prints a message and skips the gateway. The exit status is 1 only if a build failed.
set -u

here=$(cd "$(dirname "$0")/.." && pwd)
home=${HOPTAX_HOME:-${XDG_DATA_HOME:-$HOME/.local/share}/hoptax}
tools=$home/tools
packs=${HOPTAX_PACKS:-$here/gateways}

# value KEY FILE: prints the value of a key, without the brackets of a list. The key must be on its own line, at any
# indentation.
value() { sed -n "s/^ *$1: *\[\{0,1\}\([^]#]*\)\]\{0,1\}.*/\1/p" "$2" | head -n 1 | tr -d ','; }

# Prints the block `build:` of a manifest.
build_block() { sed -n '/^build:/,/^[^ b#]/p' "$1"; }

listed() { # prints name, folder, program and requirements of every pack with a project
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

known=$(listed | cut -d' ' -f1)
for name; do
    grep -qxF -- "$name" <<<"$known" && continue
    echo "gateways-extra: no pack $name has a project; choose from" $known >&2
    exit 2
done

copy=''
trap '[ -z "$copy" ] || rm -rf "$copy"' EXIT
trap 'exit 130' INT
trap 'exit 143' TERM HUP
failed=0
while read -r name folder binary needs; do
    if [ $# -gt 0 ] && [[ " $* " != *" $name "* ]]; then continue; fi
    for program in $needs; do
        command -v "$program" >/dev/null 2>&1 && continue
        echo "gateways-extra: skipping $name: it needs $program, which is not installed"
        continue 2
    done
    project=$packs/$name/$folder
    # Digest of the project and of the path of the tools directory, because the launcher contains this path.
    state=$({ cd "$project" && find . -type f | LC_ALL=C sort | xargs -d '\n' sha256sum; echo "$tools"; } | sha256sum)
    if [ -x "$tools/bin/$binary" ] && [ "$(cat "$tools/$name/.built-from" 2>/dev/null)" = "$state" ]; then
        echo "gateways-extra: $name is up to date"
        continue
    fi
    echo "gateways-extra: building $name; this takes minutes"
    rm -rf "${tools:?}/$name"
    mkdir -p "$tools/$name" "$tools/bin"
    # Build in a copy of the project, so that the build writes no files into the pack.
    copy=$(mktemp -d)
    cp -R "$project/." "$copy"
    if (cd "$copy" && sh ./build.sh "$tools/$name") </dev/null >"$home/$name.log" 2>&1 &&
        [ -x "$tools/$name/bin/$binary" ]; then
        ln -sf "$tools/$name/bin/$binary" "$tools/bin/$binary"
        echo "$state" >"$tools/$name/.built-from"
        echo "gateways-extra: built $name: $tools/bin/$binary"
    else
        echo "gateways-extra: cannot build $name; the end of $home/$name.log:" >&2
        tail -n 15 "$home/$name.log" >&2
        failed=1
    fi
    rm -rf "$copy"
done < <(listed)
exit $failed
