#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# Memory that a peer can change is read only through src/base/foreign.h, which copies once.  1. The types prevent direct
# reads: a direct read of a loan, of a cell or of a unit does not compile.  2. Direct reads that the types permit are
# listed here, with the reason; any other fails.  3. The check itself is tested with inserted direct reads.
src=$(cd "$(dirname "$0")/../.." && pwd)
work=$(mktemp -d) || exit 1
trap 'rm -rf "$work"' EXIT
. "$src/tests/harness/checks.sh"

# ---- Types ---------------------------------------------------------------------------------------------------------

# compiles STATEMENT
compiles() {
    cat >"$work/try.c" <<END
#include "core/core.h"
#include "drivers/shm/shm.h"
void try_it(madi_rx_t *rx, madi_rx_msg_t *m, shm_cell_t *cell, shm_half_t *half, madi_wire_hdr_t *hdr, char *to);
void try_it(madi_rx_t *rx, madi_rx_msg_t *m, shm_cell_t *cell, shm_half_t *half, madi_wire_hdr_t *hdr, char *to)
{
    (void)rx, (void)m, (void)cell, (void)half, (void)hdr, (void)to;
    $1;
}
END
    ${CC:-gcc} -std=gnu11 -Wall -Werror -fsyntax-only -I"$src/src" -I"$src/include" "$work/try.c" >"$work/try.log" 2>&1
}
allowed() {
    if compiles "$1"; then ok "foreign: compiles: $1"; else not_ok "foreign: compiles: $1" "$(cat "$work/try.log")"; fi
}
forbidden() {
    if compiles "$1"; then not_ok "foreign: does not compile: $1"; else ok "foreign: does not compile: $1"; fi
}

allowed 'madi_foreign_copy(hdr, rx->head, sizeof *hdr)'
allowed 'madi_foreign_copy(hdr, madi_foreign_of(cell->data), sizeof *hdr)'
allowed 'memcpy(shm_out(half->units[0]), to, 8)'
forbidden 'to[0] = rx->head[0]'
forbidden 'to[0] = *rx->loan'
forbidden 'to[0] = *rx->loan.hidden'
forbidden 'memcpy(hdr, rx->head, sizeof *hdr)'
forbidden 'memcpy(hdr, rx->loan.hidden, sizeof *hdr)'
forbidden 'madi_copy(hdr, rx->loan, sizeof *hdr)'
forbidden 'memcpy(hdr, m->cur, sizeof *hdr)'
forbidden 'to[0] = *(const char *)m->cur'
forbidden 'to[0] = (char)cell->data[0]'
forbidden 'memcpy(hdr, cell->data, sizeof *hdr)'
forbidden 'madi_copy(to, half->units[3], 8)'

# ---- Reads that the types permit ---------------------------------------------------------------------------------------

# FILE|PATTERN of a permitted read|reason
cat >"$work/listed" <<'END'
core/api/borrow.c|borrow_set\(madi_foreign_pass_on\(b\.data\), b\.inside|the program gets the block; its length was read once
core/recv/receive.h|\*base = madi_foreign_pass_on\(madi_foreign_skip\(m->cur, MADI_WIRE_DESC_SIZE\)\)|the same of a plain message
drivers/ofi/ofi_buffer.c|char \*body = madi_foreign_pass_on\(loan\);|only where it is
drivers/shm/shm_ring.c|unit_of\(l->in, madi_foreign_pass_on\(loan\)\)|only where it is
drivers/mpi/mpi_receive.c|char \*body = madi_foreign_pass_on\(loan\);|only where it is
drivers/ucx/ucx_message.c|char \*body = madi_foreign_pass_on\(loan\);|only where it is
drivers/verbs/verbs_slot.c|char \*body = madi_foreign_pass_on\(loan\);|only where it is
drivers/shm/shm_ring.c|__builtin_prefetch\(\(const void \*\)&l->in->units|fetched, not read
gateway/arrive.c|\(struct iovec\)\{madi_foreign_pass_on\(rx->loan\), hdr->length\}|sent on by a driver
gateway/transit.c|\{madi_foreign_pass_on\(body\), hdr->length\}|sent on by a driver
mpi/openmpi/receive.c|seg_addr\.pval = madi_foreign_pass_on\(data\)|Open MPI gets the fragment
mpi/device/stuck.c|to->base = \(const char \*\)to->inside|a block inside its own structure: memory of this process
END
escape='madi_foreign_pass_on\(|\.hidden\b|\(const (unsigned )?(char|void) \*\)[^;]*(units\[|cells\[|->data)'
outwards='(memcpy|memcmp|memmove|madi_copy|put)\([^,]*, *shm_out\(|shm_out\([^;]*\)\[|[=(,] *\*shm_out\('
arrival='(->|\.)base\b'
arrival_good='iov_base|madi_foreign_of\([a-z]+->base\)|!a->base|!a->message && a->base\)|mad_unpack_borrow\(a(->|\.)message, &a(->|\.)base|blocks\[|f->base'

# readers TREE: lines below TREE/src that may read directly
readers() (
    cd "$1/src" || exit 1
    {
        grep -rnE "$escape" --include='*.[ch]' . | grep -v '^\./base/foreign\.h:'
        grep -rnE "$outwards" --include='*.[ch]' .
        grep -rnE "$arrival" mpi/device/arrive.c mpi/device/device.c mpi/device/stuck.c mpi/openmpi/receive.c | grep -vE "$arrival_good"
    } | sed 's|^\./||' >"$work/found"
    while IFS='|' read -r file pattern _; do
        grep -vE "^$file:[0-9]+:.*$pattern" "$work/found" >"$work/left"
        mv "$work/left" "$work/found"
    done <"$work/patterns"
    cat "$work/found"
)
# No pattern contains a |, so `read` can split the list.
cp "$work/listed" "$work/patterns"

bad=$(readers "$src")
if [ -z "$bad" ]; then
    ok "foreign: no direct readers"
else
    not_ok "foreign: direct readers: copy by madi_foreign_copy, or list the place in tests/build/foreign_test.sh" "$bad"
fi
unused=$(while IFS='|' read -r file pattern why; do
    grep -qE "$pattern" "$src/src/$file" || echo "$file: $pattern ($why)"
done <"$work/listed")
check "foreign: each place that is listed is there" "" "$unused"

# ---- The check itself is tested -------------------------------------------------------------------------------------

# seeded FILE LINE: passes if the check reports this line when it is appended to the file
seeded() {
    rm -rf "$work/tree"
    mkdir -p "$work/tree"
    cp -r "$src/src" "$work/tree/src"
    chmod -R u+w "$work/tree"
    echo "$2" >>"$work/tree/src/$1"
    if readers "$work/tree" | grep -q "^$1:"; then ok "foreign: found in $1: $2"; else not_ok "foreign: not found in $1: $2"; fi
}
seeded gateway/arrive.c 'whole(hop, side, hdr, madi_foreign_pass_on(rx->head));'
seeded core/recv/block.c 'memcpy(&b->desc, (const void *)m->cur.hidden, 8);'
seeded drivers/shm/shm_ring.c 'memcpy(&hdr, (const char *)cell->data, sizeof hdr);'
seeded drivers/shm/shm_ring.c 'memcpy(&hdr, shm_out(cell->data), sizeof hdr);'
seeded mpi/device/arrive.c 'memcpy(&h, a->base, sizeof h);'
seeded mpi/device/stuck.c 'memcpy(&h, a->base, sizeof h);'
[ $failures = 0 ]
