#!/usr/bin/env bash
# Builds the font of standalone charts, crates/hoptax-report/assets/vendor/dejavu-sans.ttf. The font is a subset of
# DejaVu Sans: Latin, Greek and Cyrillic letters, digits, and the symbols that charts use. The script needs Debian's
# packages fonts-dejavu-core and python3-fonttools (or fonttools from PyPI). Its result is committed, so a build of
# hoptax needs neither of these packages.
set -euo pipefail
cd "$(dirname "$0")/../crates/hoptax-report/assets/vendor"
python3 -m fontTools.subset /usr/share/fonts/truetype/dejavu/DejaVuSans.ttf --output-file=dejavu-sans.ttf \
    --unicodes="U+0020-007E,U+00A0-017F,U+0391-03C9,U+0410-044F,U+2010-2026,U+2030,U+2190-2193,U+2212,U+2248,U+2260,U+2264,U+2265,U+25CF" \
    --layout-features=kern --no-hinting --desubroutinize --name-IDs=0,1,2,4,13
sed "/^Files: debian/,\$d" /usr/share/doc/fonts-dejavu-core/copyright > dejavu-sans.LICENSE
wc -c dejavu-sans.ttf
