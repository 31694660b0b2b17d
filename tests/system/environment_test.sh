#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# Values that the library takes from the environment: none if the program has privileges that its caller lacks.
src=$(cd "$(dirname "$0")/../.." && pwd)
bin=${BUILD:?}
. "$src/tests/harness/checks.sh"
work=$(mktemp -d) || exit 1
trap 'rm -rf "$work"' EXIT
trap 'exit 143' TERM INT HUP

# ---- In the code ------------------------------------------------------------------------------------------------

# direct FILES...: prints calls of getenv that should be calls of base/env.h
direct() {
    grep -nE '(^|[^_[:alnum:]])getenv *\(' "$@" /dev/null
}
cd "$src" || exit 1
# shellcheck disable=SC2046
check "libraries ask the environment by base/env.h only" "" \
    "$(direct $(find src -name '*.[ch]' ! -path 'src/tools/*' ! -path src/base/env.h))"
echo 'x = getenv("X");' >"$work/trial.c"
check "a direct call is found" "$work/trial.c:1:x = getenv(\"X\");" "$(direct "$work/trial.c")"

# ---- Of a process -----------------------------------------------------------------------------------------------

cp "$bin/tests/environment" "$work/plain" && cp "$work/plain" "$work/privileged" || exit 1
chmod 755 "$work"
MAD_TRACE=/tmp/x "$work/plain" >"$work/out" 2>"$work/err"
check "without privileges variables hold" "loaded 0 trace '/tmp/x' launcher 0" "$(cat "$work/out")"
[ "$(id -u)" = 0 ] || { echo "skipped: only root makes a program setuid for somebody else"; [ $failures = 0 ] && exit 77; exit 1; }
chown 65534 "$work/privileged" && chmod 4755 "$work/privileged" || exit 1
case "$(findmnt -no OPTIONS -T "$work" 2>/dev/null)" in
*nosuid*) echo "skipped: $work is mounted nosuid"; [ $failures = 0 ] && exit 77; exit 1 ;;
esac

MAD_TRACE=/tmp/x MAD_DRIVERS=tcp "$work/privileged" >"$work/out" 2>"$work/err"
check "with privileges they do not" "loaded 0 trace '' launcher 0" "$(cat "$work/out")"
check_lines "which is explained" 1 'MAD_[A-Z]* and all other MAD_\* variables are ignored: .*setuid' "$work/err"
check "once" 1 "$(wc -l <"$work/err")"
PMI_FD=0 "$work/privileged" >"$work/out" 2>"$work/err"
check "nor those of a launcher" "loaded 0 trace '' launcher 15" "$(cat "$work/out")" # MAD_ERR_BOOT
check_lines "which is explained, too" 1 'PMI_FD is ignored: .*unset PMI_FD to run alone' "$work/err"
[ $failures = 0 ]
