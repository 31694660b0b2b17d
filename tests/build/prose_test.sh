#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# Phrases that are hard to understand become fewer (prose.py), and no limit lets a new one pass.
src=$(cd "$(dirname "$0")/../.." && pwd)
. "$src/tests/harness/checks.sh"
work=$(mktemp -d) || exit 1
trap 'rm -rf "$work"' EXIT

python3 "$src/tests/build/ratchet.py" --check prose >"$work/log" || failures=1
cat "$work/log"

# ---- The check itself is tested: each rule is broken once in a small copy.
tree=$work/tree
mkdir -p "$tree/tests/build" "$tree/src" "$tree/doc"
cat >"$tree/src/clean.c" <<'EOF'
/* Return the number of packets.  Users who wait get it, and a quoted "who" does not count. */
int who(int it) { return it; /* for who asks */ }
EOF
cat >"$tree/doc/clean.md" <<'EOF'
Who knows stands in code here:

```
so many
```
EOF
ratchet() { python3 "$src/tests/build/ratchet.py" --root "$tree" "$@"; }
ratchet --write >/dev/null
check "--write counts what is there" "who doc 1 who src 1" "$(grep -v '^#' "$tree/tests/build/prose_limits" | tr '\n' ' ' | sed 's/ $//')"
# seed RULE TEXT: writes a file with a text that breaks this rule and no other
seed() {
    echo "$2" >"$tree/src/seed.c"
    check "a breach is found: $1" "not ok prose $1 src" \
        "$(ratchet --check prose | grep '^not ok' | sed 's/:.*//')"
    rm "$tree/src/seed.c"
}
seed who '/* Wake the threads, who wait. */'
seed told '/* The peer is told of the end. */'
seed such '/* Read so many bytes. */'
seed start '/* It sends. */'
seed question '/* Can this link send? */'
seed long "/* Send $(seq -s ' ' 1 30). */"
seed who 'const char *text = "who calls";'
ratchet --check prose >"$work/log" || not_ok "the copy passes again" "$(cat "$work/log")"

# ---- A lower count is reported, but is no failure, and --lower lowers the limit.
printf 'No breach.\n' >"$tree/doc/clean.md"
if ratchet --check prose >"$work/log"; then ok "fewer breaches pass"; else not_ok "fewer breaches pass" "$(cat "$work/log")"; fi
check_has "fewer breaches are reported" "hint: prose who doc: 0, the limit is 1" "$work/log"
echo '/* It sends. */' >"$tree/src/seed.c"
ratchet --lower >"$work/log"
mkdir "$work/other" && cp -r "$tree/doc" "$work/other"
ratchet --against "$work/other" >"$work/log2"
check "--lower lowers and never raises" "who src 1" "$(grep -v '^#' "$tree/tests/build/prose_limits" | tr '\n' ' ' | sed 's/ $//')"
check_has "--lower reports what is above its limit" "above its limit: prose start src: 1, the limit is 0" "$work/log"
check_has "--against shows what another tree does not have" "prose start src: src/seed.c:1: It sends." "$work/log2"
[ $failures = 0 ]
