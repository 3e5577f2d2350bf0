#!/usr/bin/env bash
# Checks the project's workflows and actions, and those of the examples: their syntax and shell steps with actionlint, their
# holes with zizmor. `scripts/setup.sh check` installs both. On a machine without one of them, the script says so and skips
# it. On a runner of GitHub Actions, a missing program is an error.
set -eu
cd "$(dirname "$0")/.."
home=${HOPTAX_HOME:-${XDG_DATA_HOME:-$HOME/.local/share}/hoptax}
PATH=$PATH:$home/tools/bin

have() {
    command -v "$1" >/dev/null && return
    echo "workflows: $1 is missing, so workflows are not checked with it. Run: scripts/setup.sh check" >&2
    [ "${GITHUB_ACTIONS:-}" != true ] || exit 1
    return 1
}

if have actionlint; then
    actionlint .github/workflows/*.yml examples/*/.github/workflows/*.yml
fi
if have zizmor; then
    # `--offline`: the result depends on nothing but these files. Strict: a file that cannot be read is an error.
    zizmor --offline --quiet --no-progress --strict-collection --config .github/zizmor.yml .github action.yml examples
fi
