#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# A rank that is also a gateway (madlab).  Behind a network of 5 Mbit/s, messages of its neighbours to the rank itself
# take longer than the time of detection, and so does an answer behind them; no process may report the rank as dead.
# When the rank is stopped for longer than that time, it is given up as a gateway.  Messages to and from the rank itself
# wait, and none is lost.
here=$(cd "$(dirname "$0")" && pwd)
. "$here/start.sh"
cd "$dir" || exit 1

cat >slow.conf <<'END'
networks = {
    x = { driver = "tcp"; bandwidth = "5Mbit/s"; hosts = "a, g"; };
    y = { driver = "tcp"; hosts = "g, b"; };
};
END
within 30 "$BUILD/madlab" run slow.conf --quiet -- true >out 2>&1
rc=$?
if [ $rc -ne 0 ] || grep -q "no tbf" out; then
    echo "skipped: no lab here: $(tail -1 out)"
    exit 77
fi
cat >job <<'END'
#!/bin/sh
exec "$BUILD/madrun" --no-label -n 3 --hosts a,b,g --topology slow.conf --launch-agent "$MADLAB_AGENT" \
    --env MAD_FORWARD_DETECT=500 "$BUILD/tests/soak/soak" --messages 240 --seed "$1" --max 1048576 --threads 2 --quiet
END
export BUILD
for seed in ${SEED:-7 8}; do
    within 100 "$BUILD/madlab" run slow.conf --quiet --timeout 90 --share "$BUILD/.." -- sh ./job "$seed" >out 2>&1
    check "seed $seed: exit code" 0 $?
    check_has "seed $seed: all came" "soak: good" out
    check "seed $seed: nobody was lost" 0 "$(grep -c 'peer died' out)"
done

cat >fast.conf <<'END'
networks = {
    x = { driver = "tcp"; hosts = "a, g"; };
    y = { driver = "tcp"; hosts = "g, b"; };
};
END
cat >stopped <<'END'
#!/bin/sh
"$BUILD/madrun" --no-label -n 3 --hosts a,b,g --topology fast.conf --launch-agent "$MADLAB_AGENT" \
    --env MAD_FORWARD_DETECT=500 "$BUILD/tests/soak/soak" --messages 60000 --seed "$1" --max 1048576 --threads 2 --quiet &
job=$!
tell() {
    "$MADLAB_AGENT" g sh -c 'for p in /proc/[0-9]*; do
        case $(cat $p/comm 2>/dev/null) in *soak) kill -'"$1"' ${p#/proc/} ;; esac; done'
}
passed() { "$MADLAB_AGENT" g "$BUILD/mad_info" stats all --json 2>/dev/null | grep -Eq '"fragments": [0-9]{3}'; }
while kill -0 $job 2>/dev/null && ! passed; do :; done
tell STOP
sleep 2 # for so long
tell CONT
wait $job
END
for seed in ${SEED:-7 8}; do
    within 100 "$BUILD/madlab" run fast.conf --quiet --timeout 90 --share "$BUILD/.." -- sh ./stopped "$seed" >out 2>&1
    check "stopped, seed $seed: exit code" 0 $?
    check_has "stopped, seed $seed: all came" "soak: good" out
    check_has "stopped, seed $seed: it was given up as a gateway" "the gateway gives no sign of life" out
    check "stopped, seed $seed: and as nothing else" 0 "$(grep 'peer died' out | grep -vc 'on (streams)')"
done
[ $failures = 0 ]
