#!/bin/sh
# Writes the reports that tests/all/kept_runs.rs expects into the directory of each kept run, using the given hoptax.
# Usage: scripts/keep-run.sh HOPTAX [RUN_DIRECTORY…]; without directories: all runs in records/runs.
set -eu
hoptax=$1
shift
cd "$(dirname "$0")/.."
[ $# -gt 0 ] || set -- records/runs/*/
export COLUMNS=100 NO_COLOR=1
for run; do
    for pair in json:json markdown:md csv:csv terminal:txt kong:data.json; do
        # If a run cannot be shown in a format, the file is empty. The test checks this case too.
        { "$hoptax" report "$run" --format "${pair%%:*}" 2>/dev/null || :; } | gzip -9n >"$run/report.${pair#*:}.gz"
    done
    # From the HTML page, keep only the JSON document that its script displays.
    "$hoptax" report "$run" --format html 2>/dev/null |
        python3 -c 'import sys; print(sys.stdin.read().split(" id=\"hoptax-data\">", 1)[1].split("</script>", 1)[0], end="")' |
        gzip -9n >"$run/report.page.json.gz"
done
"$hoptax" compare records/runs/interrupted records/runs/killed --format json 2>/dev/null |
    gzip -9n >records/runs/killed/compare.json.gz
