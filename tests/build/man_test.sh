#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# Every exported call, knob and installed tool has a manual page that man finds after installation, and no page has
# errors.
here=$(cd "$(dirname "$0")/../.." && pwd)
work=$(mktemp -d) || exit 1
trap 'rm -rf "$work"' EXIT
. "$here/tests/harness/checks.sh"

make -s -C "$BUILD" install-man DESTDIR="$work" >"$work/log" 2>&1 || { cat "$work/log"; not_ok "pages are installed"; exit 1; }
pages=$(find "$work" -type d -name man3)
pages=${pages%/man3}

# Calls: exported by the libraries, and declared in the headers.
nm -D --defined-only "$BUILD/.libs/libmadeleine.so" "$BUILD/.libs/libmarcel.so" |
    sed -n 's/.* \(\(mad\|marcel\)_[a-z0-9_]*\)@.*/\1/p' | sort -u >"$work/exported"
cat "$here"/include/*.h "$here"/include/madeleine/*.h |
    sed -n '/^typedef/d; /^static/d; s/^[a-z].*[ *]\(\(mad\|marcel\)_[a-z0-9_]*\)(.*/\1/p' | sort -u >"$work/declared"
[ -s "$work/exported" ] || not_ok "the library exports nothing"
cmp -s "$work/exported" "$work/declared" || not_ok "exported and declared calls differ: $(comm -3 "$work/exported" "$work/declared" | tr '\n' ' ')"
# Calls under their names of version 0.1 are rows of one page's table.
sed -n 's/^\(\(mad\|marcel\)_[a-z0-9_]*\)\t.*/\1/p' "$pages/man7/madeleine-legacy.7" | sort -u >"$work/old"
comm -23 "$work/exported" "$work/old" >"$work/new"
missing=
while read -r call; do
    f=$pages/man3/$call.3
    [ -f "$f" ] || { missing="$missing $call"; continue; }
    target=$(sed -n 's/^\.so //p' "$f")
    [ -z "$target" ] || f=$pages/$target
    grep -q "^\.SH NAME" "$f" && sed -n '/^\.SH NAME/{n;p;}' "$f" | grep -qw "$call" && grep -q "[ *]$call(" "$f" ||
        missing="$missing $call(not in $target)"
done <"$work/new"
[ -z "$missing" ] && ok "every call has a page" || not_ok "calls without a page:$missing"

if command -v man >/dev/null; then
    lost=
    while read -r call; do
        man -M "$pages" -w 3 "$call" >/dev/null 2>&1 || lost="$lost $call"
    done <"$work/new"
    [ -z "$lost" ] && ok "man finds every call" || not_ok "man does not find:$lost"
fi

# Knobs: names and defaults in the table.
lost=
for knob in $(sed -n 's/^    K([A-Z_0-9]*, "\(MAD_[A-Z_0-9]*\)".*/\1/p' "$here/src/base/knobs.h"); do
    grep -q "^\.B $knob$" "$pages/man7/madeleine-knobs.7" || lost="$lost $knob"
done
n=$(grep -c '^\.B MAD_' "$pages/man7/madeleine-knobs.7")
[ "$(grep -c '^Default: ' "$pages/man7/madeleine-knobs.7")" -eq $((n - 1)) ] || lost="$lost defaults" # one knob is the launcher's
[ -z "$lost" ] && [ "$n" -gt 5 ] && ok "every knob is in the page" || not_ok "knobs not in the page:$lost"

# Counters: each row of the table has a key, a text, the place in the page, and the place in the source.
rows=$(grep -c '^    [CN](' "$here/src/core/inspect/counters.h")
lost=$(sed -n 's/^    [CN]([A-Za-z]*, \([a-z_]*\), .*/\1/p' "$here/src/core/inspect/counters.h" | while read -r key; do
    grep -q "^\.B $key$" "$pages/man1/mad_info.1" || printf ' %s' "$key"
done)
[ "$(grep -c '^\.RI ( .*[a-z] )$' "$pages/man1/mad_info.1")" -ge $((rows - 1)) ] || lost="$lost units" # one row is a flag
lost=$lost$(awk '/^\.B [a-z_]+$/ { key = $2; getline; if ($0 == "") printf " %s(text)", key }' "$pages/man1/mad_info.1")
[ -z "$lost" ] && [ "$rows" -gt 50 ] && ok "every counter is in the page of mad_info" || not_ok "counters not in the page:$lost"
lost=$(sed -n 's/^    [CN](.* "\([a-z_/]*\.[ch]\): \([a-z_]*\)", .*/\1 \2/p' "$here/src/core/inspect/counters.h" |
    while read -r file name; do
        grep -qw "$name" "$here/src/$file" || printf ' %s:%s' "$file" "$name"
    done)
places=$(grep -c '^    [CN](.* "[a-z_/]*\.[ch]: [a-z_]*", ' "$here/src/core/inspect/counters.h")
[ -z "$lost" ] && [ "$places" = "$rows" ] && ok "counters are counted where their rows say" ||
    not_ok "counters that are not counted where their rows say:$lost"

# Tools.
tools=$(cd "$BUILD" && MAKEFLAGS= make -s --no-print-directory -f - tools <<'MAKE'
include Makefile
tools:
	@echo $(notdir $(bin_PROGRAMS))
MAKE
)
lost=
for tool in $tools; do
    [ -f "$pages/man1/$tool.1" ] || lost="$lost $tool"
done
[ -z "$lost" ] && ok "every tool has a page" || not_ok "tools without a page:$lost"

# Options, tests and commands of a tool that its page lacks.
for tool in $tools; do
    lost=
    for option in $("$BUILD/$tool" --help 2>&1 | sed -n 's/^  \([a-z][a-z-]*\) .*/\1/p; s/[^-]*\(--[a-z][a-z-]*\)/\1\n/gp' |
        grep -o '^[a-z-]*' | sort -u); do
        sed 's/\\-/-/g' "$pages/man1/$tool.1" | grep -q -- "$option" || lost="$lost $option"
    done
    [ -z "$lost" ] && ok "options of $tool" || not_ok "options of $tool that its page leaves out:$lost"
done

# Pages have no errors.  Pages have no dates, on purpose.  A link is checked as the page to which it leads.
for f in "$pages"/man*/*; do
    grep -q '^\.so ' "$f" || echo "$f"
done >"$work/list"
if command -v mandoc >/dev/null; then
    xargs mandoc -T lint -W warning <"$work/list" 2>&1 | grep -v 'missing date' >"$work/lint"
else
    while read -r f; do
        groff -man -t -ww -z "$f" 2>&1
    done <"$work/list" >"$work/lint"
fi
if [ -s "$work/lint" ]; then
    cat "$work/lint"
    not_ok "manual pages have errors"
else
    ok "$(wc -l <"$work/list") pages without errors"
fi

# Tables fit into a terminal with 80 columns.
if command -v groff >/dev/null; then
    xargs grep -l '^\.TS' <"$work/list" | while read -r f; do
        groff -man -t -ww -z -Tutf8 -rLL=78n "$f" 2>&1 | grep wider | sed "s|^|${f##*/}: |"
    done >"$work/wide"
    check "tables fit into 80 columns" "" "$(cat "$work/wide")"
fi

# Pages to which others refer exist (except pages of the system).
lost=
while read -r f; do
    for ref in $(sed -n 's/^\.BR \(ma[dr][a-z_\\-]*\) (\([137])\).*/\1.\2/p' "$f" | tr -d '\\)'); do
        case " $tools " in
        *" mad_info "*) ;;
        *) [ "$ref" = mad_info.1 ] && continue ;;
        esac
        [ -f "$pages/man${ref##*.}/$ref" ] || lost="$lost ${f##*/}:$ref"
    done
done <"$work/list"
[ -z "$lost" ] && ok "references between pages" || not_ok "references to pages that are not there:$lost"
[ $failures = 0 ]
