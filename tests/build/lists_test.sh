#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# Check the lists of the build: each test is in one list, and lists of files are sorted, with one item a line, so that
# concurrent changes can be merged.
here=$(cd "$(dirname "$0")/../.." && pwd)
. "$here/tests/harness/checks.sh"
export LC_ALL=C

# Scripts that other targets run.
by_hand="tests/build/deb_test.sh tests/mpi/mpich_suite.sh" # by make check-release, and by make soak (hours)

# Each line: a list, and a script that is in it, without arguments.
listed=$(cd "$BUILD" && MAKEFLAGS= make -s --no-print-directory -f - lists_test_show <<'MAKE' | sed 's/:.*//' | sort -u
include Makefile
lists_test_show:
	@printf '%s\n' $(foreach list,tests long alone proofs,$(patsubst $(srcdir)/%,'$(list) %',$($(list))))
MAKE
)

lost='' twice=''
for script in $(cd "$here" && ls tests/*/*_test.sh tests/*/*_suite.sh); do
    n=$(echo "$listed" | grep -cxE "(tests|long|alone) $script")
    case "$n $by_hand " in
    0*" $script "* | 1*) ;;
    0*) lost="$lost $script" ;;
    *) twice="$twice $script" ;;
    esac
done
check "each test is in a list" "" "$lost"
check "no test is in two lists" "" "$twice"
lost=
for script in $(echo "$listed" | sed -n 's/^.* \(.*\.sh\)$/\1/p' | sort -u); do
    [ -f "$here/$script" ] || lost="$lost $script"
done
check "each test of a list exists" "" "$lost"

# `make install` links the libraries of the build folder again, so programs of another test would not find them meanwhile.
beside=
for script in $(cd "$here" && grep -lE '^make .*\$BUILD" install ' tests/*/*.sh); do
    echo "$listed" | grep -qx "alone $script" || beside="$beside $script"
done
check "a test that runs make install runs alone" "" "$beside"

# disorder FILE...: the places where a list has two items on a line, an item twice, or items out of order.  The lists
# `long` and `alone` need not be sorted: their order is that in which the tests run.
disorder() {
    awk '
        FNR == 1 { inside = 0 }
        /^[A-Za-z_]+ [+]?= \\$/ { inside = 1; list = $1; before = ""; next }
        inside {
            more = $NF == "\\"
            if (NF != 1 + more)
                print FILENAME ":" FNR ": more than one item"
            else if (list != "long" && list != "alone" && $1 "" <= before)
                print FILENAME ":" FNR ": " $1 " is behind " before
            before = $1 ""
            inside = more
        }' "$@"
}
files=$(cd "$here" && find Makefile.am include src bench examples man tests packaging -name '*.am')
check "lists have one item a line, sorted" "" "$(cd "$here" && disorder $files)"
broken=$(mktemp) || exit 1
trap 'rm -f "$broken"' EXIT
printf 'a = \\\n\tb.c \\\n\ta.c\nb = \\\n\ta.c b.c\nlong = \\\n\tb.c \\\n\ta.c\n' >"$broken"
check "two items on a line, and a wrong order, are found" 2 "$(disorder "$broken" | wc -l)"
[ $failures = 0 ]
