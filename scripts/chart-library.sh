#!/usr/bin/env bash
# Builds the chart library of reports, crates/hoptax-report/assets/vendor/echarts.min.js. The library contains the parts
# of Apache ECharts that are listed in scripts/chart-library/library.js. The package-lock.json next to this file
# determines the versions. The script needs node and npm. Its result is committed, so a build of hoptax needs neither of
# them.
set -euo pipefail
cd "$(dirname "$0")/chart-library"
vendor=../../crates/hoptax-report/assets/vendor
build=$(mktemp -d)
trap 'rm -rf "$build"' EXIT
cp library.js package.json package-lock.json "$build"
(cd "$build" && npm ci --silent --no-audit --no-fund)
cp "$build/node_modules/echarts/LICENSE" "$vendor/echarts.LICENSE"
cp "$build/node_modules/echarts/NOTICE" "$vendor/echarts.NOTICE"
cp "$build/node_modules/echarts/licenses/LICENSE-d3" "$vendor/d3.LICENSE"
cp "$build/node_modules/zrender/LICENSE" "$vendor/zrender.LICENSE"
"$build/node_modules/.bin/esbuild" "$build/library.js" --bundle --minify --format=iife --global-name=echarts \
    --define:process.env.NODE_ENV='"production"' --legal-comments=none --charset=ascii --log-level=warning \
    --banner:js="$(./licenses.py --notice)" --outfile="$build/echarts.min.js"
cp "$build/echarts.min.js" "$vendor/echarts.min.js"
./licenses.py
wc -c "$vendor/echarts.min.js"
