#!/bin/sh
# Writes the reports of each kept run into its directory, with the given hoptax. The test kept_runs.rs needs them.
# Usage: scripts/keep-run.sh HOPTAX [RUN_DIRECTORY…]; without directories: all runs in records/runs.
set -eu
hoptax=$1
shift
cd "$(dirname "$0")/.."
[ $# -gt 0 ] || set -- records/runs/*/
export COLUMNS=100 NO_COLOR=1
for run; do
    for pair in json:json markdown:md csv:csv terminal:txt kong:data.json; do
        # If hoptax cannot show the run in a format, the file is empty. The test expects an empty file in this case.
        { "$hoptax" report "$run" --format "${pair%%:*}" 2>/dev/null || :; } | gzip -9n >"$run/report.${pair#*:}.gz"
    done
    # Keep only the JSON document in the HTML page, which the page's script displays.
    "$hoptax" report "$run" --format html 2>/dev/null |
        python3 -c 'import sys; print(sys.stdin.read().split(" id=\"hoptax-data\">", 1)[1].split("</script>", 1)[0], end="")' |
        gzip -9n >"$run/report.page.json.gz"
done
"$hoptax" compare records/runs/interrupted records/runs/killed --format json 2>/dev/null |
    gzip -9n >records/runs/killed/compare.json.gz
