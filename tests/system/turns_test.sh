#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# A link that always has more data does not starve the others: BUILD=<build folder> turns_test.sh All links are polled
# after 1 MiB, with up to 64 packets from each.  Before, they were polled after 1024 rounds, which are more than 750
# messages.
here=$(cd "$(dirname "$0")" && pwd)
BUILD=${BUILD:-$(cd "$here/../.." && pwd)/build}
. "$here/../harness/checks.sh"

for processes in 3 4; do
    told=$(MAD_PREFER=tcp within 60 "$BUILD/madrun" -n $processes "$BUILD/tests/turns" 5000 4000 10 2>&1)
    turns=$(echo "$told" | sed -n 's/.*turns \([0-9][0-9]*\)$/\1/p')
    if [ -n "$turns" ] && [ "$turns" -le 300 ]; then
        ok "turns of others before a message that is there, $((processes - 2)) busy"
    else
        not_ok "turns of others before a message that is there, $((processes - 2)) busy" "$told"
    fi
done
[ $failures = 0 ]
