#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# A rank that is a gateway as well, behind a network of 5 Mbit/s (madlab): what its neighbours send it themselves takes longer
# than the time of detection, and so does an answer behind it; nobody takes it for dead.
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
[ $failures = 0 ]
