#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# Several virtual channels in one job, each over networks of its own (lanes.c).  All hosts are processes on this host.  Their
# networks are the two addresses of the loopback interface, with the names that the file gives them.
#
#        x1 --- g1 --- y1
#   a <                    > b       one: x1, y1    two: x2, y2    c is on x1 and x2
#        x2 --- g2 --- y2
here=$(cd "$(dirname "$0")" && pwd)
. "$here/start.sh"

cat >"$dir/lanes.cfg" <<'END'
networks = {
    x1 = { driver = "tcp"; hosts = "a, c, g1"; };
    x2 = { driver = "tcp"; hosts = "a, c, g2"; };
    y1 = { driver = "tcp"; hosts = "g1, b"; };
    y2 = { driver = "tcp"; hosts = "g2, b"; };
};
gateways = "g1, g2, c";
virtual_channels = {
    one = { over = "x1, y1"; };
    two = { over = "x2, y2"; };
    pair = { over = "x2, x1"; };
};
END
sed 's/pair/both/' "$dir/lanes.cfg" >"$dir/other.cfg"
sed '/^virtual/,$d' "$dir/lanes.cfg" >"$dir/none.cfg"

cat >"$dir/as" <<'END'
#!/bin/sh
# as HOSTS COMMAND...: runs as a process of the host whose place in HOSTS is the rank
MAD_HOST=$(echo "$1" | cut -d, -f$((PMI_RANK + 1)))
MAD_TOPOLOGY=${MAD_TOPOLOGY:-${0%/*}/lanes.cfg}
[ "$PMI_RANK" != 1 ] || MAD_TOPOLOGY=${SECOND:-$MAD_TOPOLOGY}
shift
case $MAD_HOST in
a | c) MAD_TCP_NETWORK=lo=x1,lo/6=x2 ;;
b) MAD_TCP_NETWORK=lo=y2,lo/6=y1 ;;
g1) MAD_TCP_NETWORK=lo=x1,lo/6=y1 ;;
g2) MAD_TCP_NETWORK=lo=y2,lo/6=x2 ;;
esac
MAD_DRIVERS=self,tcp,virtual MAD_TCP_INTERFACES=lo,lo/6
export MAD_HOST MAD_TOPOLOGY MAD_TCP_NETWORK MAD_DRIVERS MAD_TCP_INTERFACES
exec "$@"
END
chmod +x "$dir/as"
# at HOSTS COMMAND...: runs a process on each of the hosts
at() {
    hosts=$1
    shift
    n=$(echo "$hosts" | tr , '\n' | wc -l)
    within 120 "$BUILD/madrun" --no-label $opt -n "$n" "$dir/as" "$hosts" "$@" >"$dir/out" 2>&1
}
# results_check NAME: checks the lines that the program has printed
results_check() {
    grep '^\(ok\|not ok\) ' "$dir/out" | sed "s/ok /ok $1: /"
    failures=$((failures + $(grep -c '^not ok ' "$dir/out")))
}

needs_topology "$dir/lanes.cfg" a
needs_loopback6

at a,b,g1,g2,c "$BUILD/tests/lanes" ways
check "two virtual channels at once" 0 $?
results_check ways
check_lines "all have looked" 26 '^ok ' "$dir/out"

MAD_FORWARD_DEADLINE=1000 opt=--keep-going at a,b,g1,g2,c "$BUILD/tests/lanes" lost
results_check lost
check_lines "both ends have looked" 11 '^ok ' "$dir/out"

# The conformance suite, whose channels are on virtual channels one and two by turns.
tests=all
[ -z "$LONG" ] || tests=$("$BUILD/tests/conform" --list | awk '$2 == 2 { print $1 }')
for t in $tests; do
    if CONFORM_CHANNELS="one two" at a,b,g1,g2,c "$BUILD/tests/conform" "$t"; then
        ok "conform-$t-two-virtual-channels"
    else
        not_ok "conform-$t-two-virtual-channels (exit status $?)" "$(grep -v 'message: warning' "$dir/out" | tail -20)"
    fi
done

# Files that differ: no process accepts a message on networks that its own file does not have.
SECOND=$dir/other.cfg MAD_CONNECT_TIMEOUT=3000 at a,c "$BUILD/tests/lanes" alone
check_has "another file: is refused" "the peer has another file" "$dir/out"
check_lines "another file: both get an error" 2 '^rank [01]: MAD_ERR_' "$dir/out"
SECOND=$dir/none.cfg MAD_CONNECT_TIMEOUT=3000 at c,a "$BUILD/tests/lanes" alone
check_has "a file without it: is refused" "the peer has another file" "$dir/out"
check_lines "a file without it: both get an error" 2 '^rank [01]: MAD_ERR_' "$dir/out"

# On hosts with networks of their own (madlab), which the file distinguishes by interfaces: the kernel counts what the
# interfaces send.
cat >"$dir/lab.cfg" <<'END'
networks = {
    x1 = { driver = "tcp"; hosts = "a, c, g1"; interface = "eth0"; };
    x2 = { driver = "tcp"; hosts = ({ hosts = "a, c"; interface = "eth1"; }, { hosts = "g2"; interface = "eth0"; }); };
    y1 = { driver = "tcp"; hosts = ({ hosts = "g1"; interface = "eth1"; }, { hosts = "b"; interface = "eth0"; }); };
    y2 = { driver = "tcp"; hosts = "g2, b"; interface = "eth1"; };
};
END
sed '1,/^};/d' "$dir/lanes.cfg" >>"$dir/lab.cfg"
cat >"$dir/inside" <<'END'
sent() {
    for i in eth0 eth1; do "$MADLAB_AGENT" a cat /sys/class/net/$i/statistics/tx_bytes; done | tr '\n' ' '
}
# over CHANNEL HOST: sends 64 messages of 64 KiB from a, and as many back; prints which interfaces sent them, and which
# hosts they passed
over() {
    before=$(sent)
    "$BUILD/madrun" --no-label -n 2 --hosts "a,$2" --launch-agent "$MADLAB_AGENT" --topology "$MADLAB_TOPOLOGY" \
        "$BUILD/mad_perf" pingpong --channel "$1" --json --sizes 64K --iters 32 --batches 2 >out 2>&1 || cat out
    echo "$before $(sent)" | awk '{ printf "%s", ($3 - $1 > 4e6 ? "eth0" : "") ($4 - $2 > 4e6 ? "eth1" : "") }'
    sed -n 's/.*"route": "\([^"]*\)".*/ \1/p' out | tail -1 | tr '\n' ' '
    echo "$1"
}
cd /tmp && over one c && over two c && over pair c && over one b && over two b
END
BUILD=$BUILD within 60 "$BUILD/madlab" run "$dir/lab.cfg" --quiet --share "$dir" --share "$here/../.." --timeout 50 -- \
    sh "$dir/inside" >"$dir/out" 2>&1
if [ $? = 0 ] || grep -q '^eth' "$dir/out"; then
    check "in a lab: each takes its interfaces and gateways" \
        "eth0one,eth1two,eth1pair,eth0 a > g1 > b one,eth1 a > g2 > b two," "$(tr '\n' , <"$dir/out")"
else
    echo "# no lab here: $(tail -1 "$dir/out")"
fi
[ $failures = 0 ]
