#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# madgw --serve: one daemon serves jobs of several users.  Which files are jobs; that rights, keys, shares and ends are
# separate.
here=$(cd "$(dirname "$0")" && pwd)
BUILD=$(cd "${BUILD:-$here/../../build}" && pwd) || exit 1
. "$here/../harness/checks.sh"
madgw=$BUILD/madgw
madrun=$BUILD/madrun
other=12345 # a user that owns nothing
export LC_ALL=C

# ---- Outside: what needs no lab, then the lab

# wrong NAME CODE TEXT ARGUMENT...: checks that madgw refuses these arguments
wrong() {
    name=$1 code=$2 text=$3
    shift 3
    within $limit "$madgw" "$@" >out 2>err
    check "$name: exit code" "$code" $?
    check_has "$name: is said" "$text" err
}
options() {
    mkdir jobs
    chmod 777 jobs
    wrong "a directory for all" 1 "others can write there and remove files that are not theirs" --serve jobs
    chmod 1777 jobs
    wrong "no directory" 1 "No such file or directory" --serve nosuch
    wrong "a job, too" 2 "--join, --tell and --announce are for one job" --serve jobs --join x
    wrong "jobs" 2 "give a number from 1 to" --serve jobs --jobs 0
    wrong "rate" 2 "give bytes, for example" --serve jobs --rate fast
    wrong "budget" 2 "are too few for 8 jobs" --serve jobs --budget 1M
    wrong "root's rights" 2 "a gateway does not run as root" --serve jobs --user 0
    within $limit "$madgw" --serve jobs --jobs 4 --user-jobs 1 --budget 400M --rate 8M --show-limits >out 2>&1
    check_has "limits: jobs" "4 at once, 1 of a user" out
    check_has "limits: memory" "104857600 bytes of each job, 419430400 of all" out
    check_has "limits: bandwidth" "8388608 bytes/s of all" out
    check_has "limits: addresses" "subnets (--allow)" out
}

# begin ARGUMENT...: starts a daemon in the background
begin() {
    : >served
    "$madgw" -v --serve "$dir/jobs" "$@" 2>served &
    daemon=$!
}
end() {
    kill $daemon
    wait $daemon
    check "$1: ends" 0 $?
}
served() { grep -q -- "$1" served; }
# seen NAME TEXT: waits until the daemon has printed the text
seen() { if wait_for served "$2"; then ok "$1"; else not_ok "$1" "no '$2' in:" "$(tail -n 20 served)"; fi; }

# Files that are not job files, and a job file whose content is not a job.
files() {
    begin
    seen "files: it serves" "serves the jobs of"
    echo text >jobs/open.job
    chmod 644 jobs/open.job
    seen "files: one that others read" "job open.job (user [0-9]*): refused: it has a key, and others"
    ln -s "$dir/out" jobs/link.job
    seen "files: a link" "job link.job .*: refused: it is not a plain file"
    (umask 077 && echo text >one && ln one jobs/twice.job)
    seen "files: one with two names" "job twice.job .*: refused: it has another name (hard link)"
    (umask 077 && echo text >jobs/.garbage && mv jobs/.garbage jobs/garbage.job)
    seen "files: garbage" "job garbage.job .*: madgw: --join .*: line 1 is not understood"
    seen "files: garbage is not tried for ever" "job garbage.job .*: its gateway ended with exit code 1; not started again"
    (umask 077 && echo text >'jobs/sp ace.job' && echo text >jobs/other.txt)
    chmod 600 jobs/open.job
    seen "files: a change of rights is seen" "job open.job .*: madgw: --join .*: line 1 is not understood"
    check "files: names that are none are passed over" "" "$(grep -e 'sp ace' -e 'other.txt' served)"
    check_lines "files: each refusal is said once" 3 'refused: ' served
    rm -f jobs/*.job
    end "files"
    if [ "$(id -u)" = 0 ] && command -v setpriv >/dev/null; then
        users
    else
        echo "# not root, or no setpriv: jobs of other users are left out"
    fi
    rm -rf jobs
}
# A daemon that does not run as root has the rights of one user, and serves only jobs of that user.
users() {
    chown $other jobs
    wrong "users: a directory of somebody else" 1 "it belongs to user $other" --serve jobs
    begin_as() {
        : >served
        chmod 755 "$dir"
        setpriv --reuid $other --regid $other --clear-groups "$madgw" -v --serve "$dir/jobs" 2>served &
        daemon=$!
    }
    if ! setpriv --reuid $other --regid $other --clear-groups "$madgw" --version >/dev/null 2>&1; then
        echo "# user $other cannot execute $madgw: left out"
        return
    fi
    begin_as
    seen "users: it serves" "serves the jobs of"
    (umask 077 && echo text >jobs/.root && mv jobs/.root jobs/root.job)
    seen "users: a job of somebody else" "job root.job (user 0): refused: it belongs to another user"
    rm -f jobs/*.job
    end "users"
}

outside() {
    dir=$(mktemp -d) || exit 1
    trap 'rm -rf "$dir"' EXIT
    trap 'exit 143' TERM INT HUP
    cd "$dir" || exit 1
    options
    files
    cat >two.conf <<'END'
networks = {
    red  = { driver = "tcp"; hosts = "red[0-1], gate"; };
    blue = { driver = "tcp"; hosts = "blue[0-1], gate"; };
};
END
    within 30 "$BUILD/madlab" run two.conf --quiet -- true >out 2>&1
    rc=$?
    if [ $rc -ne 0 ]; then
        echo "# no lab here: $(tail -1 out)"
        [ $failures = 0 ]
        return
    fi
    chmod 755 "$dir" # other users search it for the jobs
    within 200 "$BUILD/madlab" run two.conf --quiet --share "$here/../.." --timeout 190 -- sh "$here/madgw_jobs_test.sh" ||
        failures=$((failures + 1))
    [ $failures = 0 ]
}

# ---- Inside, on the launch host

on_gate() { "$MADLAB_AGENT" gate "$@"; }
# serve ARGUMENT...: starts a daemon on the gateway
serve() {
    rm -rf jobs served
    mkdir jobs
    chmod 1777 jobs
    : >served
    # shellcheck disable=SC2016
    on_gate sh -c 'echo $$ >daemon; exec "$@"' sh "$madgw" -v --serve "$PWD/jobs" "$@" 2>served &
    daemon=$!
    seen "it serves" "serves the jobs of"
}
stop() {
    on_gate sh -c 'kill $(cat daemon)'
    wait $daemon
    check "$1: the daemon ends" 0 $?
}
# start NAME RANKS OWNER COMMAND...: starts a job whose input is descriptor 8 (job one) or 9, and writes its file for
# the daemon
start() {
    name=$1 n=$2 owner=$3
    shift 3
    rm -f "$name.in" "$name.job"
    mkfifo "$name.in"
    "$madrun" --topology "$PWD/two.conf" --launch-agent "$MADLAB_AGENT" --timeout $limit -n $((2 * n)) \
        --hosts red0:$n,blue0:$n --gateways none --job-file "$name.job" "$@" >"$name.out" 2>"$name.err" <"$name.in" &
    eval "job_$name=$!"
    case $name in one) exec 8>"$name.in" ;; *) exec 9>"$name.in" ;; esac
    wait_for test -s "$name.job"
    (umask 077 && cp "$name.job" "jobs/.$name")
    chown "$owner" "jobs/.$name"
    mv "jobs/.$name" "jobs/$name.job"
    seen "$name: its gateway is there" "job $name.job (user $owner): madgw: host gate: reached $((2 * n)) processes"
}
# go NAME: lets the job continue; finish NAME CODE: checks its end
go() { case $1 in one) echo go >&8 ;; *) echo go >&9 ;; esac; }
finish() {
    case $1 in one) exec 8>&- ;; *) exec 9>&- ;; esac
    eval "wait \$job_$1"
    check "$1: exit code" "$2" $?
}
# cancel: ends job one, which has no gateway any more
cancel() {
    exec 8>&-
    kill "$job_one" 2>/dev/null # the job may have found that out itself
    wait "$job_one"
}
# gateway_of WORDS: prints the number, on the gateway's host, of the process that serves this job
gateway_of() {
    # shellcheck disable=SC2016
    on_gate sh -c 'for p in /proc/[0-9]*; do
        case $(tr "\0" " " <$p/cmdline 2>/dev/null) in "madgw $1"*) echo ${p#/proc/} ;; esac; done' sh "$1"
}
# mb_of NAME: prints the sum of the MB/s of all its receivers
mb_of() { awk '/MB\/s/ { sum += $4 } END { printf "%.1f", sum }' "$1.out"; }
# at_least NAME VALUE LEAST: checks that VALUE is at least LEAST
at_least() {
    if awk "BEGIN { exit !(${2:-0} >= $3) }"; then ok "$1: $2, at least $3"; else not_ok "$1: ${2:-nothing}, not $3" "$(cat ./*.err served)"; fi
}

test_apart() {
    serve
    start one 1 $owner_one "$BUILD/tests/across" ask 3
    start two 1 $owner_two "$BUILD/tests/across" ask 2
    for way in "one --join $PWD/jobs/one.job" "two $(two_words)"; do
        pid=$(gateway_of "${way#* }")
        on_gate cat "/proc/$pid/status" >status
        check_has "${way%% *}: no new privileges" "NoNewPrivs:	1" status
        check "${way%% *}: no capabilities" "0000000000000000" "$(sed -n 's/^CapEff:\t//p' status)"
        check "${way%% *}: and none to be had" "0000000000000000" "$(sed -n 's/^CapBnd:\t//p' status)"
        ! $filters || check_has "${way%% *}: a filter of system calls" "Seccomp:	2" status
        check_has "${way%% *}: no core files" "Max core file size        0 " <<END
$(on_gate cat "/proc/$pid/limits")
END
        sed -n 's/^Uid:\t\([0-9]*\)\t.*/\1/p' status >"uid_${way%% *}"
    done
    check "one runs as its owner" "$owner_one" "$(cat uid_one)"
    check "two runs as its owner, or nobody for root" "$runs_two" "$(cat uid_two)"
    go one
    go two
    wait_for grep -q answered one.out && wait_for grep -q answered two.out
    check "both are served" 2 "$(cat one.out two.out | grep -c answered)"

    # A process of job one has the addresses of job two: no process of job two accepts it.
    { head -2 jobs/one.job; grep '^address' jobs/two.job; sed -n '/^topology/,/^address/p' jobs/two.job | grep -v '^address'; } >mixed
    on_gate "$madgw" -v --join - <mixed >mixed.out 2>&1
    check_has "a key of one is none of two" "refused" mixed.out
    check "a key of one is none of two: nobody is reached" "" "$(grep 'reached [1-9]' mixed.out)"
    go two
    wait_for sh -c '[ "$(grep -c answered two.out)" = 2 ]'
    check "two goes on" 2 "$(grep -c answered two.out)"
    finish two 0

    on_gate kill -KILL "$(gateway_of "--join $PWD/jobs/one.job")"
    seen "a gateway that is killed comes again" "job one.job .*: its gateway was ended by signal 9 (Killed); starting it again"
    again() { [ "$(grep -c "job one.job .*reached 2 processes" served)" = 2 ]; }
    wait_for again
    go one
    wait_for sh -c '[ "$(grep -c answered one.out)" = 2 ]'
    check "and is used" 2 "$(grep -c answered one.out)"
    check_lines "the other's was never ended" 0 'job two.job .*was ended' served
    rm -f jobs/one.job
    seen "a file that goes" "job one.job .*: its file was removed: drains"
    seen "its gateway drains" "job one.job .*: madgw: host gate: drained, ends"
    cancel
    stop apart
}
two_words() { if [ "$owner_two" = 0 ]; then echo "--join - --rate"; else echo "--join $PWD/jobs/two.job"; fi; }

# One job floods, the other has one stream: it would get a seventh if streams had equal shares.  The bandwidth is one
# that also a busy host reaches.  The bounds are for a gateway that may run for as long as its token bucket lasts.
test_share() {
    serve --rate 30M
    start one 6 $owner_one "$BUILD/tests/flow" 6
    start two 1 $owner_two "$BUILD/tests/flow" 2
    go one
    sleep 1 # the flood must begin first; how long it takes does not matter
    go two
    finish two 0
    finish one 0
    check "flood: all of one end" 6 "$(grep -c MB/s one.out)"
    at_least "flood: two has its half of 31.5 MB/s" "$(mb_of two)" 9
    at_least "flood: one has what is left, and all when it is alone" "$(mb_of one)" 12
    if awk "BEGIN { exit !($(mb_of one) <= 34) }"; then ok "flood: and no more"; else not_ok "flood: one has $(mb_of one)"; fi
    start three 1 $owner_two "$BUILD/tests/flow" 2
    go three
    finish three 0
    at_least "alone, a job has all" "$(mb_of three)" 18
    stop share
}

# The daemon itself is killed: no job's gateway survives.
test_places() {
    serve --jobs 2 --user-jobs 1
    start one 1 $owner_one "$BUILD/tests/across" ask 1
    cp one.job jobs/.more
    chmod 600 jobs/.more
    chown $owner_one jobs/.more
    mv jobs/.more jobs/more.job
    seen "places: one of a user" "job more.job .*: waits: 1 jobs are served, 1 of this user; at most 2 and 1"
    rm -f jobs/more.job
    on_gate kill -KILL "$(cat daemon)"
    wait $daemon
    gone() { [ -z "$(gateway_of "--join $PWD/jobs/one.job")" ]; }
    if wait_for gone; then ok "places: no gateway outlives the daemon"; else not_ok "places: a gateway outlives the daemon"; fi
    cancel
}

# Addresses that are not listed.
test_allow() {
    serve --allow 192.0.2.0/24
    rm -f one.in
    mkfifo one.in
    "$madrun" --topology "$PWD/two.conf" --launch-agent "$MADLAB_AGENT" --timeout $limit -n 2 --hosts red0,blue0 \
        --gateways none --job-file one.job --env MAD_CONNECT_TIMEOUT=3000 "$BUILD/tests/across" ask 1 >one.out 2>one.err <one.in &
    job_one=$!
    exec 8>one.in
    wait_for test -s one.job
    (umask 077 && cp one.job jobs/.one)
    mv jobs/.one jobs/one.job
    seen "allow: it calls nobody" "job one.job .*: madgw: host gate: ready, connects to"
    seen "allow: why" "or they are not on the list of MAD_TCP_ALLOW: 192.0.2.0/24"
    check "allow: nobody is reached" "" "$(grep 'reached [1-9]' served)"
    cancel
    rm -f jobs/one.job
    stop allow
}

inside() {
    owner_one=$(id -u) owner_two=$(id -u) runs_two=$(id -u) filters=true
    if [ "$(id -u)" = 0 ] && [ "$(awk '{ print $3 }' /proc/self/uid_map)" != 1 ]; then
        owner_one=$other
        runs_two=$(id -u nobody)
    fi
    "$madgw" --show-limits | grep -q 'this build has no filter' && filters=false
    for t in ${TESTS:-apart share places allow}; do
        "test_$t"
    done
    [ $failures = 0 ]
}

if [ -n "$MADLAB_AGENT" ]; then inside; else outside; fi
