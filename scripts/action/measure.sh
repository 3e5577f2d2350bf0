#!/usr/bin/env bash
# The step "Measure" of action.yml. Runs PLAN with PACKS, again while it is void and fewer than ATTEMPTS runs were made, and
# checks the budgets. Writes the comment, with a comparison of the two gateways in LABELS. It ends with 0 if it could
# measure: a later step fails because of the budgets, after the report is kept.
set -euo pipefail
fail() { echo "::error title=hoptax::$*"; exit 1; }
[[ $NAME =~ ^[A-Za-z0-9._-]+$ ]] || fail "name is '$NAME'; use letters, digits, '.', '_' and '-'"
[[ $INCONCLUSIVE =~ ^(fail|pass)$ ]] || fail "inconclusive is '$INCONCLUSIVE'; it must be fail or pass"
[[ $ATTEMPTS =~ ^[1-9]$ ]] || fail "attempts is '$ATTEMPTS'; it must be 1 to 9"

directory=$RUNNER_TEMP/hoptax-$NAME
[ ! -e "$directory" ] || fail "$directory exists. Give each use of this action its own name"
mkdir "$directory"
echo "directory=$directory" >>"$GITHUB_OUTPUT"

packs=()
[ -z "$PACKS" ] || packs=(--packs "$PACKS")
for ((attempt = 1; attempt <= ATTEMPTS; attempt++)); do
    status=0
    hoptax run "$PLAN" "${packs[@]}" --out "$directory/run-$attempt" || status=$?
    case $status in
    0 | 3 | 5) break ;;
    4) echo "::warning title=hoptax::run $attempt of at most $ATTEMPTS is void: its report says why" ;;
    *) fail "hoptax run ended with $status; its message is above" ;;
    esac
done
[ "$attempt" -le "$ATTEMPTS" ] || attempt=$ATTEMPTS
runs=("$directory/run-$attempt"/*/)
run=${runs[0]%/}

status=0
hoptax gate "$run" --junit "$directory/gate.xml" --format markdown >"$directory/gate.md" || status=$?
case $status in
0) verdict=kept ;;
3) verdict=exceeded ;;
4) verdict=void ;;
5)
    verdict=inconclusive
    [ "$INCONCLUSIVE" = fail ] || status=0
    ;;
*) fail "hoptax gate ended with $status; its message is above" ;;
esac

{
    cat "$directory/gate.md"
    if [ -n "$LABELS" ]; then
        printf '\n<details><summary>%s in detail</summary>\n\n' "${LABELS/,/ and }"
        hoptax compare "$run" --labels "$LABELS" --accept-void --format markdown
        printf '\n</details>\n'
    fi
    if [ "$attempt" -gt 1 ]; then
        printf '\nMeasured %s times, because the first run was void.\n' "$attempt"
    fi
    printf '\nThe [report](%s/%s/actions/runs/%s#artifacts) is in the artifact `%s`.\n' \
        "$GITHUB_SERVER_URL" "$GITHUB_REPOSITORY" "$GITHUB_RUN_ID" "$NAME"
} >"$directory/comment.md"
cat "$directory/comment.md" >>"$GITHUB_STEP_SUMMARY"
printf '%s\n' "verdict=$verdict" "status=$status" "run=$run" >>"$GITHUB_OUTPUT"
