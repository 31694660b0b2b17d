#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# Text for machines is written and read in the same way in every locale.  Checked in the code (base/ascii.h), and for a
# process that has called setlocale, in locales made here (a comma in numbers: de_DE; I and i no pair: tr_TR).
src=$(cd "$(dirname "$0")/../.." && pwd)
bin=${BUILD:?}
. "$src/tests/harness/checks.sh"
work=$(mktemp -d) || exit 1
client=
over() {
    exec 9>&-
    [ -z "$client" ] || { kill "$client" 2>/dev/null; wait "$client" 2>/dev/null; }
    rm -rf "$work"
}
trap over EXIT
trap 'exit 143' TERM INT HUP

# ---- In the code ------------------------------------------------------------------------------------------------

# none NAME PATTERN FILES...: checks that no line of the files matches
none() {
    name=$1 pattern=$2
    shift 2
    found=$(grep -nE "$pattern" "$@" /dev/null)
    if [ -z "$found" ]; then
        ok "$name"
    else
        not_ok "$name: use base/ascii.h:" "$found"
    fi
}
cd "$src" || exit 1
# Code that runs in other programs; only mad_info makes drawings.
library=$(find src -name '*.[ch]' ! -path 'src/tools/*' ! -name 'draw*' ! -path src/base/ascii.h)
# shellcheck disable=SC2086
{
    none "no letters or digits of a locale in the library" '(\bis(alpha|alnum|digit|space|upper|lower|punct|print)|\bto(upper|lower)|\bstrn?(casecmp|coll)) *\(|ctype\.h|strings\.h' $library
    none "no real numbers of a locale in the library" '"([^"%]|%%|%[^"fgeEG]*[diusxXpcPzlhj])*%[-+ #0]*[0-9*]*(\.[0-9*]+)?l?[fgeEG]|\b(strto(d|f|ld)|atof) *\(' $library
}
none "no program sets a locale" '\b(setlocale|uselocale) *\(' $(find src bench examples -name '*.[ch]')

# ---- Of a process -----------------------------------------------------------------------------------------------

command -v localedef >/dev/null && command -v python3 >/dev/null ||
    { echo "skipped: localedef or python3 is not here"; [ $failures = 0 ] && exit 77; exit 1; }
mkdir "$work/locales"
export LOCPATH="$work/locales" MAD_LOG=INFO XDG_CACHE_HOME="$work" # costs that are measured beside tests must not be kept

# process LOCALE: starts a process in this locale; 77 if the locale does not exist
process() {
    localedef -i "$1" -f UTF-8 "$work/locales/$1.UTF-8" >"$work/localedef" 2>&1
    rm -f "$work/in"
    mkfifo "$work/in"
    # shellcheck disable=SC2094
    timeout 60 "$bin/tests/locale_client" "$1.UTF-8" <"$work/in" >"$work/out" 2>"$work/err" &
    client=$!
    exec 9>"$work/in"
    for _ in $(seq 600); do
        grep -q ready "$work/out" && return 0
        kill -0 "$client" 2>/dev/null || { wait "$client"; rc=$?; client=; return $rc; }
        sleep 0.05
    done
    return 1
}

end() {
    exec 9>&-
    wait "$client"
    check "$1: the process ends well" 0 $?
    client=
}

for name in de_DE tr_TR; do
    process $name
    rc=$?
    if [ $rc = 77 ]; then
        echo "skipped: no locale $name can be made (package locales): $(head -1 "$work/localedef")"
        [ $failures = 0 ] && exit 77
        exit 1
    fi
    check "$name: a process" 0 $rc
    [ $rc = 0 ] || continue
    check "$name: it has a comma" 1 "$(grep -c '1,5' "$work/out")"
    check "$name: MAD_LOG=INFO is known" 0 "$(grep -c 'is not valid' "$work/err")"
    pid=$(ps -o pid= --ppid "$client" 2>/dev/null || cat "/proc/$client/task/$client/children")
    pid=$(echo $pid)
    for what in explain stats; do
        timeout 30 "$bin/mad_info" $what "$pid" >"$work/text" 2>&1
        check "$name: mad_info $what" 0 $?
        timeout 30 "$bin/mad_info" $what "$pid" --json >"$work/json" 2>&1
        check "$name: mad_info $what --json" 0 $?
        python3 -m json.tool <"$work/json" >/dev/null 2>"$work/why"
        check "$name: what that prints is JSON ($(head -1 "$work/why"))" 0 $?
    done
    LC_ALL=$name.UTF-8 timeout 30 "$bin/mad_info" metrics >"$work/metrics" 2>&1
    check "$name: metrics have no commas in numbers" 0 "$(grep -cE '[0-9],[0-9]+$' "$work/metrics")"
    for what in "" knobs; do
        # shellcheck disable=SC2086
        LC_ALL=$name.UTF-8 timeout 60 "$bin/mad_info" $what --json 2>&1 | python3 -m json.tool >/dev/null 2>"$work/why"
        check "$name: mad_info $what --json in that locale" 0 $?
    done
    end $name
done
[ $failures = 0 ]
