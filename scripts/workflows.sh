#!/usr/bin/env bash
# Checks the workflows in .github with actionlint. `scripts/setup.sh check` installs actionlint if Go is installed. If it
# is missing, the script says so and exits with 0, because only releases use the workflows.
set -eu
cd "$(dirname "$0")/.."
home=${HOPTAX_HOME:-${XDG_DATA_HOME:-$HOME/.local/share}/hoptax}
PATH=$PATH:$home/tools/bin
if command -v actionlint >/dev/null; then
    actionlint
else
    echo "workflows: actionlint is missing, so .github/workflows is not checked" >&2
fi
