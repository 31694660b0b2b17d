#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# A host is one host, however often, at which places, and in which spelling it is named: its ranks are counted together,
# and one proxy runs.
BUILD=$(cd "${BUILD:-build}" && pwd) || exit 1
. "$(cd "$(dirname "$0")" && pwd)/../harness/checks.sh"
madrun=$BUILD/madrun
dir=$(mktemp -d) || exit 1
trap 'rm -rf "$dir"' EXIT
cd "$dir" || exit 1
# Every call is recorded; ssh -G, which asks for ssh's settings of a name, is not answered.
mkdir bin
printf '#!/bin/sh\n[ "$1" != -G ] || exit 1\nwhile case $1 in -o) shift ;; -*) ;; *) false ;; esac; do shift; done
echo "$1" >>%s/calls\nFAKE_HOST=$1; export FAKE_HOST\nshift\nexec "$@"\n' "$dir" >bin/ssh
cp bin/ssh agent
chmod +x bin/ssh agent
PATH=$dir/bin:$PATH
own=$(hostname)
upper=$(echo "$own" | tr '[:lower:]' '[:upper:]')

# same NAME RANKS WANT CALLS ARGUMENTS...: checks "rank@host ...", and which hosts were called
same() {
    name=$1 n=$2 want=$3 calls=$4
    shift 4
    : >calls
    within $limit "$madrun" -n "$n" --no-label "$@" sh -c 'echo $PMI_RANK@$FAKE_HOST' >out 2>err </dev/null
    check "$name" "0 $want|$calls" "$? $(sort -n out | tr '\n' ' ' | sed 's/ $//')|$(sort calls | tr '\n' ' ' | sed 's/ $//')"
    [ ! -s err ] || head -3 err
}

test_here() {
    for list in localhost,localhost "localhost,$own,localhost" "$own,localhost" 127.0.0.1,localhost "localhost,::1" \
        LocalHost,localhost. "$upper,$own." "127.0.0.1,::1,127.0.0.2,$own,0:0:0:0:0:0:0:1"; do
        same "here: $list" 2 "0@ 1@" "" --hosts "$list"
    done
    same "here: even shares" 5 "0@ 1@ 2@ 3@ 4@" "" --hosts "localhost,$own"
    same "here: room is added up" 5 "0@ 1@ 2@ 3@ 4@" "" --hosts "localhost:2,$own:2,127.0.0.1"
    within $limit "$madrun" -n 6 --hosts "localhost:2,$own:2,127.0.0.1" true >out 2>err </dev/null
    check "here: and no more" 2 $?
    check_has "here: and no more: said" "the hosts have room for 5" err
    printf 'localhost\n%s slots=2\n127.0.0.1\n%s.\n' "$own" "$upper" >hostfile
    same "here: a file" 5 "0@ 1@ 2@ 3@ 4@" "" --hostfile hostfile
    for address in $(ip -o address show up 2>/dev/null | awk '$3 ~ /^inet/ && $4 !~ /^fe80/ { sub("/.*", "", $4); print $4 }'); do
        same "here: $address" 2 "0@ 1@" "" --hosts "$address,localhost"
    done
}

test_elsewhere() {
    # Addresses that belong to no host (RFC 5737, 3849): nothing is sent to them.
    same "addresses: apart" 3 "0@203.0.113.1 1@203.0.113.1 2@203.0.113.2" "203.0.113.1 203.0.113.2" --hosts 203.0.113.1,203.0.113.2,203.0.113.1
    same "addresses: spelling" 2 "0@2001:db8::1 1@2001:db8::1" 2001:db8::1 --hosts 2001:db8::1,2001:DB8:0::0:1
    same "addresses: IPv4 within IPv6" 2 "0@203.0.113.1 1@203.0.113.1" 203.0.113.1 --hosts 203.0.113.1,::ffff:203.0.113.1
    same "here and elsewhere" 4 "0@ 1@ 2@203.0.113.1 3@203.0.113.1" 203.0.113.1 --hosts "localhost,203.0.113.1:2,$own"
    same "users" 2 "0@one@203.0.113.1 1@two@203.0.113.1" "one@203.0.113.1 two@203.0.113.1" --hosts one@203.0.113.1,two@203.0.113.1
    same "a user" 2 "0@one@203.0.113.1 1@one@203.0.113.1" one@203.0.113.1 --hosts one@203.0.113.1,one@::ffff:203.0.113.1
    with="--launch-agent ./agent"
    # shellcheck disable=SC2086
    same "an agent: apart" 3 "0@a 1@a 2@b" "a b" --hosts a,b,a $with
    # shellcheck disable=SC2086
    same "an agent: spelling" 4 "0@a.b 1@a.b 2@a.b 3@c" "a.b c" --hosts a.b,A.B,c,A.b. $with
    # shellcheck disable=SC2086
    same "an agent: room is added up" 5 "0@a 1@a 2@a 3@b 4@b" "a b" --hosts a:2,b:2,A $with
    # shellcheck disable=SC2086
    same "an agent: the first spelling" 2 "0@A 1@A" "A" --hosts A,a $with
    # shellcheck disable=SC2086
    same "an agent: this host" 3 "0@localhost 1@localhost 2@localhost" localhost --hosts "localhost,$own,127.0.0.1" $with
    printf 'b\na slots=2\nB.\n' >hostfile
    # shellcheck disable=SC2086
    same "an agent: a file" 4 "0@b 1@b 2@a 3@a" "a b" --hostfile hostfile $with
}

test_topology() {
    cat >two.conf <<'END2'
networks = { lan = { driver = "tcp"; hosts = "red0, red1"; }; wan = { driver = "tcp"; hosts = "RED1, Red0."; }; };
clusters = { red = { hosts = "red[0-1]"; }; };
END2
    with="--launch-agent ./agent --topology two.conf"
    # shellcheck disable=SC2086
    same "a topology file: its hosts" 2 "0@red0 1@red1" "red0 red1" $with
    # shellcheck disable=SC2086
    same "a topology file: spelling" 3 "0@RED0 1@RED0 2@red1" "RED0 red1" --hosts RED0,red1,red0. $with
    # shellcheck disable=SC2086
    same "a topology file: a host and its cluster" 3 "0@red0 1@red0 2@red1" "red0 red1" --hosts red0,red $with
    printf 'networks = { lan = { driver = "tcp"; hosts = "%s, far"; }; };\n' "$own" >own.conf
    same "a topology file: this host" 2 "0@ 1@" "" --hosts "localhost,$own,127.0.0.1" --topology own.conf
}

for t in ${TESTS:-here elsewhere topology}; do
    "test_$t"
done
[ $failures = 0 ]
