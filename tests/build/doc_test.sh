#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# Documents are true, as far as a script can check it: madeleine(7) shows the program of the README (which
# install_test.sh compiles and runs); headers compile alone; examples are explained and run; links and names of files
# lead to files; tools accept the options that are named.
here=$(cd "$(dirname "$0")/../.." && pwd)
work=$(mktemp -d) || exit 1
trap 'rm -rf "$work"' EXIT
. "$here/tests/harness/checks.sh"

# ---- The program of the README and of madeleine(7)
sed -n '/^```c$/,/^```$/p' "$here/README.md" | sed '/^```/d' >"$work/readme.c"
sed -n '/^\.SH EXAMPLE/,/^\.fi/p' "$here/man/madeleine.7" | sed -n '/^#include/,/^}/p' | sed 's/\\e/\\/g; s/\\-/-/g' >"$work/man.c"
if [ -s "$work/readme.c" ] && cmp -s "$work/readme.c" "$work/man.c"; then
    ok "the program of madeleine(7)"
else
    diff "$work/readme.c" "$work/man.c"
    not_ok "the program of madeleine(7) is not that of the README"
fi

cc=$(sed -n 's/^CC = //p' "$BUILD/Makefile")
# ---- Public headers compile alone, as C11 and as C++
cxx=$(command -v c++ g++ clang++ | head -1)
for h in $(cd "$here/include" && echo marcel.h madeleine.h madeleine/*.h); do
    echo "#include <$h>" >"$work/h.c"
    $cc -std=c11 -Wall -Wextra -pedantic -Werror -I"$here/include" -fsyntax-only "$work/h.c" || not_ok "$h as C11"
    [ -z "$cxx" ] || $cxx -x c++ -Wall -Wextra -Werror -I"$here/include" -fsyntax-only "$work/h.c" || not_ok "$h as C++"
done
[ $failures = 0 ] && ok "headers compile alone"

# ---- Relative links in documents
bad=
for f in "$here"/*.md "$here"/doc/*.md; do
    dir=$(dirname "$f")
    for link in $(sed '/^```/,/^```/d' "$f" | grep -o '](\([^)]*\))' | sed 's/^](//; s/)$//; s/#.*//'); do
        case $link in
        *:*) continue ;; # elsewhere
        esac
        [ -e "$dir/$link" ] || bad="$bad ${f#"$here"/}:$link"
    done
done
[ -z "$bad" ] && ok "links between documents" || not_ok "links that lead nowhere:$bad"

# ---- Files that documents name
bad=
for f in $(sed '/^```/,/^```/d' "$here"/*.md "$here"/doc/*.md |
    grep -o '`\(src\|include\|tests\|examples\|bench\|man\|packaging\|doc\)/[A-Za-z0-9_./-]*`' | tr -d '`' | grep -v mynet | sort -u); do # mynet: a reader's driver
    [ -e "$here/$f" ] || bad="$bad $f"
done
[ -z "$bad" ] && ok "files that documents name" || not_ok "files that documents name and that are not there:$bad"

# ---- CONTRIBUTING: each row of the table of changes names files to change, and a test (the check above ensures that
# they exist)
sed -n '/^## Where to change what/,/^## [^W]/p' "$here/CONTRIBUTING.md" | grep '^|' | sed 1,2d >"$work/changes"
n=$(grep -c '^| [^|]*| [^|]*`[a-z]*/[^|]*| [^|]*| `tests/[^|]*|$' "$work/changes")
[ "$n" -ge 12 ] && [ "$n" -eq "$(grep -c '' "$work/changes")" ] && ok "where to change what" ||
    not_ok "where to change what: $n rows are complete, of" "$(cat "$work/changes")"

# ---- The picture of layers shows every folder of src
sed -n '/^```$/,/^```$/p' "$here/doc/architecture.md" | sed '1d; /^```$/,$d' >"$work/layers"
bad=
for d in "$here"/src/*/ "$here"/src/core/*/ "$here"/src/mpi/*/ "$here"/src/drivers/*/; do
    d=$(basename "$d")
    grep -qw -e "$d" "$work/layers" || bad="$bad $d"
done
[ -s "$work/layers" ] && [ -z "$bad" ] && ok "the picture of layers" || not_ok "folders that the picture of layers leaves out:$bad"

# ---- Each document names its readers; each entry of the rationale is a question, a conclusion in bold, and short
bad=
for f in "$here"/doc/*.md; do
    sed -n '1,6p' "$f" | grep -q '^For ' || bad="$bad ${f#"$here"/}"
done
[ -z "$bad" ] && ok "documents say whom they are for" || not_ok "documents that do not say whom they are for:$bad"
entries() {
    awk 'function end() {
             if (title == "") return
             if (title !~ /\?$/) print title ": not a question"
             if (bold !~ /^\*\*/) print title ": no conclusion in bold"
             if (last > 25) print title ": " last " lines"
         }
         /^##* / { end(); title = /^### / ? substr($0, 5) : ""; n = last = 0; bold = "" }
         { n++ }
         /./ { last = n; if (bold == "" && n > 1) bold = $0 }
         END { end() }' "$1"
}
bad=$(entries "$here/doc/rationale.md")
[ -z "$bad" ] && ok "entries of the rationale" || not_ok "entries of the rationale:" "$bad"
printf '### Why\n\nBecause.\n' >"$work/entry.md"
check "a bad entry is found" "Why: not a question Why: no conclusion in bold " "$(entries "$work/entry.md" | tr '\n' ' ')"

# ---- Names of functions, types, constants, knobs and files
bad=$(python3 "$here/tests/build/doc_names.py" "$here")
[ -z "$bad" ] && ok "names in documents" || not_ok "names in documents that the tree does not have:" "$bad"
# The check itself is tested: it must be able to fail.
mkdir -p "$work/tree/src" "$work/tree/doc"
echo 'int madi_here(void); #define MADI_LIMIT 1' >"$work/tree/src/here.c"
echo 'Call `madi_here` and `madi_gone()`, up to `MADI_LIMIT` or `MADI_GONE`; see `here.c`, `gone.c`, `src/here.c`.' >"$work/tree/doc/a.md"
check "a stale name is found" "doc/a.md:1: madi_gone() doc/a.md:1: MADI_GONE doc/a.md:1: gone.c " \
    "$(python3 "$here/tests/build/doc_names.py" "$work/tree" | tr '\n' ' ')"

# ---- The glossary: each term once, in order
sed -n '/^| term/,/^$/p' "$here/doc/glossary.md" | sed '1,2d; /^$/d; s/^| //; s/ |.*//' >"$work/terms"
check "the glossary is in order" "" "$(LC_ALL=C sort -fu "$work/terms" | diff "$work/terms" -)"

# ---- Options and commands of tools that documents name
bad=
for tool in madrun madgw madlab mad_info mad_perf mad_scale marcel_perf; do
    "$BUILD/$tool" --help >"$work/help" 2>&1
    sed '/^```/,/^```/d' "$here"/*.md "$here"/doc/*.md | grep -o "\`$tool [^\`]*\`" | tr -d '`' |
        sed 's/ --around .*/ --around/' >"$work/named" # the words after --around belong to another tool
    for option in $(grep -o -e ' --[a-z-]*' "$work/named" | sort -u); do
        grep -q -e "$option\>" "$work/help" || bad="$bad '$tool $option'"
    done
    [ "$tool" = mad_info ] || continue
    for command in $(sed -n 's/^mad_info \([a-z]*\).*/\1/p' "$work/named" | sort -u); do
        grep -q "^  $command\>" "$work/help" || bad="$bad '$tool $command'"
    done
done
[ -z "$bad" ] && ok "options and commands that documents name" || not_ok "tools do not know:$bad"

# ---- Every tutorial program is an example that is run
bad=
for f in "$here"/examples/*.c; do
    name=$(basename "$f" .c)
    grep -q "examples/$name\.c" "$here/doc/tutorial.md" || bad="$bad $name(not in the tutorial)"
    grep -q "examples/$name\"" "$here/tests/system/examples.sh" || bad="$bad $name(not run)"
done
[ -z "$bad" ] && ok "every example is explained and run" || not_ok "examples:$bad"
[ $failures = 0 ]
