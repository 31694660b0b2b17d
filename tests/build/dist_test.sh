#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# The release holds every file that is kept under version control.
here=$(cd "$(dirname "$0")/../.." && pwd)
work=$(mktemp -d) || exit 1
trap 'rm -rf "$work"' EXIT

tracked() {
    git -C "$here" ls-files 2>/dev/null
}
[ -n "$(tracked)" ] || { echo "not a checkout: nothing to compare with"; exit 77; }
make -s -C "$BUILD" distdir distdir="$work/release" >"$work/log" 2>&1 || { cat "$work/log"; echo "not ok make distdir"; exit 1; }
# What is of use in a checkout only.
tracked | grep -v '^\.gitignore$' | while read -r f; do
    [ -e "$here/$f" ] && [ ! -e "$work/release/$f" ] && echo "$f"
done >"$work/missing"
if [ -s "$work/missing" ]; then
    echo "not ok files that are not in the release (EXTRA_DIST): $(tr '\n' ' ' <"$work/missing")"
    exit 1
fi
echo "ok the release holds all files"
