#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# No word of the tree is in lintian's list of misspellings.
here=$(cd "$(dirname "$0")/../.." && pwd)
. "$here/tests/harness/checks.sh"
command -v spellintian >/dev/null || { echo "skipped: spellintian is not here (package lintian)"; exit 77; }

# These are names.  A repeated word is often code, so lintian's tag for that is ignored.
names="addd|freee|intall|intrest|reachs|wasN"
misspelled() {
    xargs spellintian | grep -v '(duplicate word)' | grep -vE ": ($names) -> "
}
cd "$here" || exit 1
check "words are spelled right" "" \
    "$(find ./*.md NEWS doc man include src bench examples tests packaging -type f ! -path '*/corpus/*' ! -name '*.svg' \
        ! -name '*.pyc' ! -name spelling_test.sh | misspelled | head -20)"
bad=$(mktemp) || exit 1
trap 'rm -f "$bad"' EXIT
echo "Messages are recieved." >"$bad"
[ -n "$(echo "$bad" | misspelled)" ] && ok "a misspelled word is found" || not_ok "a misspelled word is not found"
[ $failures = 0 ]
