#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# The release contains every file that is under version control.
here=$(cd "$(dirname "$0")/../.." && pwd)
. "$here/tests/harness/checks.sh"
work=$(mktemp -d) || exit 1
trap 'rm -rf "$work"' EXIT

tracked() {
    git -C "$here" ls-files 2>/dev/null
}
[ -n "$(tracked)" ] || { echo "skipped: no checkout, or no git: there is nothing to compare with"; exit 77; }
make -s -C "$BUILD" distdir distdir="$work/release" >"$work/log" 2>&1 || { not_ok "make distdir" "$(cat "$work/log")"; exit 1; }
# Except files that are used in a checkout only.
tracked | grep -v '^\.gitignore$' | while read -r f; do
    [ -e "$here/$f" ] && [ ! -e "$work/release/$f" ] && echo "$f"
done >"$work/missing"
check "the release holds all files (EXTRA_DIST)" "" "$(tr '\n' ' ' <"$work/missing")"
[ $failures = 0 ]
