#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# madrun and the bootstrap, as whole programs.  BUILD: the folder with the built programs.  Prints "ok NAME" or "not ok
# NAME".  The script waits for events (a line in a pipe, the end of a process), always with a limit, and never for a
# time.

BUILD=$(cd "${BUILD:-build}" && pwd) || exit 1
. "$(cd "$(dirname "$0")/../.." && pwd)/tests/harness/checks.sh"
madrun=$BUILD/madrun
client=$BUILD/tests/boot_client
dir=$(mktemp -d) || exit 1
trap 'rm -rf "$dir"' EXIT
cd "$dir" || exit 1
export LC_ALL=C

# run ARGS: runs madrun; exit status in $code, output in ./out and ./err
run() {
    within $limit "$madrun" "$@" >out 2>err </dev/null
    code=$?
}
# ended PID: true if the process has ended; in_state LETTER PID: true if /proc has this state (a zombie that nobody
# collects has ended, too)
ended() { [ ! -d "/proc/$1" ] || in_state '[ZX]' "$1"; }
in_state() { grep -q "^State:.$1" "/proc/$2/status" 2>/dev/null; }
# check_ended NAME PID...: checks that each process ends within the limit
check_ended() {
    name=$1
    shift
    for pid in "$@"; do
        wait_for ended "$pid" || { not_ok "$name" "$pid goes on"; return; }
    done
    ok "$name"
}

test_codes() {
    run -n 3 true
    check "exit code: all good" 0 $code
    run -n 3 sh -c '[ $PMI_RANK != 1 ] || exit 7'
    check "exit code: of the one that failed" 7 $code
    check_has "exit code: is explained" "rank 1 ended with exit code 7" err
    check "exit code: one message" 1 "$(wc -l <err)"
    run -n 2 sh -c '[ $PMI_RANK != 0 ] || kill -SEGV $$; exec sleep 1000'
    check "exit code: 128 + signal" 139 $code
    run -n 2 "$client" nofini
    check "exit code: without leaving the session" 1 $code
    run -n 2 --timeout 0.1 sleep 1000
    check "exit code: time-out" 124 $code
    within $limit "$madrun" -n 2 sh -c 'echo $PMI_RANK; exec sleep 1000' >/dev/full 2>err
    check "exit code: output cannot be written" 141 $?
    check_has "exit code: output cannot be written: why" "what the ranks print cannot be written: No space left on device" err
}

test_labels() {
    run -n 2 sh -c 'printf "one\ntwo %s" $PMI_RANK; echo error >&2'
    check "labels: output" "[0] one,[0] two 0,[1] one,[1] two 1," "$(sort out | tr '\n' ,)"
    check "labels: errors apart" "[0] error,[1] error," "$(sort err | tr '\n' ,)"
    run -n 1 sh -c 'printf "one\ntwo"'
    check "labels: none for one rank" "one,two" "$(tr '\n' , <out)"
    run -n 2 --no-label sh -c 'echo $PMI_RANK of $PMI_SIZE'
    check "labels: switched off" "0 of 2,1 of 2," "$(sort out | tr '\n' ,)"
    run -n 2 sh -c 'echo "{\"rank\": $PMI_RANK}"; echo "{ sh; }"; echo "{\"rank\""'
    check "labels: none before JSON objects" '[0] { sh; },[0] {"rank",[1] { sh; },[1] {"rank",{"rank": 0},{"rank": 1},' \
        "$(sort out | tr '\n' ,)"
    run -n 4 sh -c 'i=0; while [ $i -lt 2000 ]; do echo "line $i of $PMI_RANK"; i=$((i+1)); done'
    check "labels: no line is broken" 8000 "$(grep -cE '^\[([0-3])\] line [0-9]+ of \1$' out)"
}

test_kill() {
    run -n 4 sh -c 'echo $$; [ $PMI_RANK = 3 ] && exit 5; exec sleep 1000'
    check "kill: the others end when one fails" 5 $code
    run -n 3 sh -c 'trap "" TERM; [ $PMI_RANK = 2 ] && exit 6; while :; do sleep 1000; done'
    check "kill: even those that do not listen" 6 $code
    run -n 3 --keep-going sh -c '[ $PMI_RANK = 0 ] && exit 4; echo went on'
    check "keep-going: exit code" 4 $code
    check "keep-going: the others went on" "[1] went on,[2] went on," "$(sort out | tr '\n' ,)"
    run -n 3 --keep-going "$client" die 1
    check "keep-going: a fence does not wait for the dead" 3 $code
    run -n 3 "$client" die 1
    check "kill: others wait in a fence" 3 $code
    run -n 2 sh -c 'sleep 1000 & echo $!'
    # shellcheck disable=SC2046
    check_ended "kill: what ended ranks left behind" $(sed 's/.* //' out)

    mkfifo pids
    "$madrun" -n 2 sh -c 'sleep 1000 & echo $$ $!; wait' >pids 2>/dev/null </dev/null &
    job=$!
    exec 3<pids
    read -r _ a b <&3
    read -r _ c d <&3
    exec 3<&-
    kill -KILL $job
    wait $job 2>/dev/null
    check_ended "kill: nothing survives madrun" "$a" "$b" "$c" "$d"
    rm pids
}

# signal NAME: checks that the signal is forwarded to the ranks, which end well
test_signals() {
    mkfifo ready
    hup=HUP
    if [ $((0x$(sed -n 's/^SigIgn:.*\(........\)$/\1/p' /proc/self/status) & 1)) = 1 ]; then
        echo "# signals: HUP is ignored here (nohup), and so by all who are started from here"
        hup=
    fi
    for signal in USR1 USR2 $hup INT TERM; do
        "$madrun" -n 2 sh -c 'trap "echo got '$signal'; exit 0" '$signal'; echo ready; while :; do sleep 1000 & wait; done' \
            >ready 2>err </dev/null &
        job=$!
        exec 3<ready
        read -r _ <&3 && read -r _ <&3
        kill -$signal $job
        sort <&3 >out
        exec 3<&-
        wait $job
        check "signals: $signal" "0 [0] got $signal,[1] got $signal," "$? $(tr '\n' , <out)"
    done
    "$madrun" -n 1 sh -c 'echo $$; exec sleep 1000' >ready 2>err </dev/null &
    job=$!
    read -r rank <ready
    kill -TSTP $job
    wait_for in_state T "$rank" && wait_for in_state T $job && ok "signals: TSTP" || not_ok "signals: TSTP"
    kill -CONT $job
    wait_for in_state S "$rank" && ok "signals: CONT" || not_ok "signals: CONT"
    kill -TERM $job
    wait $job
    check "signals: exit code" 143 $?
    rm ready
}

test_surroundings() {
    run -n 2 --env A=1 --env "B=two words" sh -c 'echo "$A $B"'
    check "env" "[0] 1 two words,[1] 1 two words," "$(sort out | tr '\n' ,)"
    mkdir -p sub
    run -n 1 --wdir sub sh -c 'pwd; echo $PWD'
    check "wdir" "$dir/sub,$dir/sub," "$(tr '\n' , <out)"
    run -n 1 --bind core sh -c 'grep Cpus_allowed_list /proc/self/status'
    check "bind: one core" 1 "$(grep -cE '[:[:space:]][0-9]+([-,][0-9]+)?$' out)"
    run -n 2 env
    check "the key is in no environment" 0 "$(grep -cE '[0-9a-f]{64}' out)"
    printf 'a\nb\n' | within $limit "$madrun" -n 2 wc -l >out
    check "stdin: rank 0" "[0] 2,[1] 0," "$(sort out | tr '\n' ,)"
    printf 'a\nb\n' | within $limit "$madrun" -n 2 --stdin 1 wc -l >out
    check "stdin: another" "[0] 0,[1] 2," "$(sort out | tr '\n' ,)"
    printf 'a\nb\n' | within $limit "$madrun" -n 2 --stdin none wc -l >out
    check "stdin: nobody" "[0] 0,[1] 0," "$(sort out | tr '\n' ,)"
    printf 'a\nb\n' >input
    within $limit "$madrun" -n 1 wc -l <input >out
    check "stdin: a file" 2 "$(cat out)"
    head -c 3000000 /dev/zero | within $limit "$madrun" -n 1 cat | wc -c >out
    check "stdin: more than fits" 3000000 "$(cat out)"
}

# wrong NAME CODE TEXT ARGS: checks that there is one message, with the cause and a remedy
wrong() {
    name=$1 want=$2 text=$3
    shift 3
    run "$@"
    check "wrong: $name: exit code" "$want" $code
    check_has "wrong: $name: message" "$text" err
    check "wrong: $name: said once" 1 "$(grep -c . err)"
}

test_wrong() {
    wrong "program not found" 127 "program 'no-such-program' was not found in PATH: give its path" -n 8 no-such-program
    wrong "not a program" 126 "check its path, its permissions" -n 2 /etc/passwd
    wrong "no such directory" 127 "give one that is there with --wdir" -n 2 --wdir /no/such true
    wrong "bad value" 2 "--bind 'x' is not valid: give core" -n 2 --bind x true
    wrong "no count" 2 "Give -n N" true
    wrong "no program" 2 "which program?" -n 2
    wrong "too few slots" 2 "name more of them" -n 3 --hosts a:1,b true
    wrong "host that does not resolve" 2 "correct its name" -n 2 --hosts no-such-host.invalid true
    wrong "launch agent that fails" 1 "check that 'false h true' works" -n 2 --hosts h --launch-agent false true
    for value in 0 -1 1000001 99999999999999999999 2x ''; do
        wrong "count '$value'" 2 "-n '$value' is not valid: give a number from 1 to" -n "$value" true
    done
    (ulimit -n 100 && within $limit "$madrun" -n 1000000 true) >out 2>err </dev/null
    check "wrong: more processes than descriptors: exit code" 1 $?
    check "wrong: more processes than descriptors: message" \
        "madrun: 1000000 processes take 3000000 open files, and the limit is 100: start fewer here, or raise 'ulimit -n'" "$(cat err)"
    (ulimit -n 100 && within $limit "$madrun" -n 31 true) >out 2>err </dev/null
    check "wrong: one more than there are descriptors for: exit code" 1 $?
    check "wrong: one more than there are descriptors for: said once" 1 "$(grep -c "raise 'ulimit -n'" err)"
    for value in '' 0 -1 nan inf 1e10 5x '1 2'; do
        wrong "time-out '$value'" 2 "--timeout '$value' is not valid: give a number of seconds" -n 2 --timeout "$value" true
    done
    for value in '' A = =b; do
        wrong "variable '$value'" 2 "--env '$value' is not valid: give NAME=VALUE" -n 1 --env "$value" true
    done
    for value in '' CORE core,numa 1; do
        wrong "binding '$value'" 2 "--bind '$value' is not valid: give core" -n 1 --bind "$value" true
    done
    for value in '' , ,,; do
        wrong "hosts '$value'" 2 "no host is named in '$value'" -n 1 --hosts "$value" true
    done
    for value in '' ' '; do
        wrong "launch agent '$value'" 2 "--launch-agent '$value' is not valid: give a command" \
            -n 1 --hosts h --launch-agent "$value" true
    done
    wrong "empty directory" 2 "--wdir '' is not valid: give a directory" -n 1 --wdir '' true
    wrong "no such rank" 2 "there are only the ranks 0 to 1" -n 2 --stdin 2 true
    wrong "no such NUMA node" 1 "there is no such NUMA node" -n 1 --reserve-numa 99999 true
    { printf '\001' && head -c 4000 /dev/urandom && echo; } >garbage # random bytes may begin with a host or with none
    wrong "hosts in a file of garbage" 2 "garbage, line 1: " -n 1 --hostfile garbage true
    printf 'a\nb slots=0\n' >garbage
    wrong "hosts in a file with a number that is none" 2 "garbage, line 2: 'b:0': give how many" -n 1 --hostfile garbage true
    echo 'a slots=2 extra' >garbage
    wrong "hosts in a file with a word too many" 2 "garbage, line 1: 'extra' is not understood" -n 1 --hostfile garbage true
    wrong "a job's file that cannot be written" 1 "--job-file 'no/such/folder' cannot be written: No such file" \
        -n 1 --job-file no/such/folder true
    wrong "a job's file that is a folder" 1 "--job-file '.' cannot be written: Is a directory" -n 1 --job-file . true
    : >garbage
    wrong "hosts in an empty file" 2 "garbage names no host" -n 1 --hostfile garbage true
    wrong "hosts in a directory" 2 "'.' cannot be read: Is a directory" -n 1 --hostfile . true
    run -n 2 --no-such-option true
    check "wrong: unknown option: exit code" 2 $code
    check_has "wrong: unknown option: message" "madrun --help" err
    run --help
    check "help" 0 $code
    run --version
    check "version" 0 $code
}

test_hosts() {
    printf '#!/bin/sh\necho welcome to $1\nhost=$1; shift\nexport FAKE_HOST=$host; exec "$@"\n' >agent
    chmod +x agent
    run -n 6 --hosts 'n[1-2]:2,x' --launch-agent ./agent true
    check "hosts: too few" 2 $code
    run -n 5 --hosts 'n[1-2]:2,x' --launch-agent ./agent sh -c 'echo $FAKE_HOST'
    check "hosts: ranges and slots" "[0] n1,[1] n1,[2] n2,[3] n2,[4] x," "$(sort out | tr '\n' ,)"
    run -n 3 --hosts 'n[09-10]' --launch-agent ./agent sh -c 'echo $FAKE_HOST'
    check "hosts: even shares" "[0] n09,[1] n09,[2] n10," "$(sort out | tr '\n' ,)"
    printf '# hosts\nn1 slots=1\nn2:2 # two\n' >hostfile
    run -n 3 --hostfile hostfile --launch-agent ./agent sh -c 'echo $FAKE_HOST'
    check "hosts: file" "[0] n1,[1] n2,[2] n2," "$(sort out | tr '\n' ,)"
    run -n 5 --hosts 'a,b' --launch-agent ./agent "$client" 5
    check "hosts: exchange of values" 0 $code
    run -n 2 --hosts 'a,b' --launch-agent ./agent "$client" key
    check "hosts: the key arrives" 0 $code
    run -n 4 --hosts 'a,b' --launch-agent ./agent sh -c '[ $PMI_RANK = 3 ] && exit 9; exec sleep 1000'
    check "hosts: one fails, all end" 9 $code
    run -n 2 --hosts 'a,b' --launch-agent ./agent no-such-program
    check "hosts: program not found" 127 $code
    run -n 2 --hosts 'a,b' --launch-agent ./agent --env X=y sh -c 'echo "$X"; pwd'
    check "hosts: env and folder" "[0] $dir,[0] y,[1] $dir,[1] y," "$(sort out | tr '\n' ,)"
    head -c 3000000 /dev/zero | within $limit "$madrun" -n 2 --stdin 1 --hosts a,b --launch-agent ./agent wc -c >out
    check "hosts: stdin" "[0] 0,[1] 3000000," "$(sort out | tr '\n' ,)"
    # This agent ends with madrun, but the proxy does not: the proxy must notice by itself.
    printf '#!/bin/sh\nshift\nexec 3<&0\n"$@" <&3 & wait $!\n' >agent
    mkfifo ready
    "$madrun" -n 2 --hosts a,b --launch-agent ./agent sh -c 'echo $$; exec sleep 1000' >ready 2>err </dev/null &
    job=$!
    exec 3<ready
    read -r _ one <&3 && read -r _ two <&3
    kill -KILL $job
    wait $job 2>/dev/null
    exec 3<&-
    check_ended "hosts: nothing survives madrun" "$one" "$two"
    printf '#!/bin/sh\nshift\nexec "$@"\n' >agent
    "$madrun" -n 2 --hosts a,b --launch-agent ./agent sh -c 'echo $PPID; exec sleep 1000' >ready 2>err </dev/null &
    job=$!
    exec 3<ready
    read -r _ one <&3
    kill -KILL "$one"
    cat <&3 >/dev/null
    exec 3<&-
    wait $job
    check "hosts: one is lost, all end" 1 $?
    check_has "hosts: one is lost: message" "was lost: the launch agent './agent' ended with signal 9" err
    rm ready
    run -n 2 --hosts a,b --launch-agent 'cat /dev/urandom --' true
    check "hosts: the agent never stops talking" 1 $code
    check_has "hosts: the agent never stops talking: message" "cannot be used: its output is garbled" err
    printf '#!/bin/sh\necho x >&2\nexec sleep 20\n' >agent
    : >err
    "$madrun" -n 2 --hosts a,b --launch-agent ./agent true 2>err </dev/null &
    job=$!
    while [ "$(grep -c x err)" -lt 2 ] && kill -0 $job 2>/dev/null; do sleep 0.05; done
    kill $job
    wait $job
    check "hosts: ended while an agent says nothing" 1 $?
    check_has "hosts: ended while an agent says nothing: message" "the launch agent './agent' ended with signal 15" err
}

test_many() {
    begin=$(date +%s%N)
    run -n 64 true
    end=$(date +%s%N)
    check "64 processes" 0 $code
    echo "# 64 processes started and ended in $(((end - begin) / 1000000)) ms"
}

test_boot() {
    "$client" >out 2>&1
    check "boot: alone" "0 boot_client: rank 0 of 1: good, by none" "$? $(cat out)"
    run -n 3 "$client" key
    check "boot: madrun" "0 3" "$code $(grep -c 'good, by madrun' out)"
    check "boot: one job" 1 "$(sed -n 's/.*job //p' out | sort -u | wc -l)"
    run -n 2 sh -c '"$0" 2 && "$0" 2' "$client"
    check "boot: two programs in turn" "0 4" "$code $(grep -c 'good, by madrun' out)"
    mkfifo fence.fifo
    run -n 2 "$client" beside "$PWD/fence.fifo"
    check "boot: gets beside a fence that comes to its end after them" 0 $code
    SLURM_NTASKS=2 "$client" >out 2>&1
    check "boot: one of many without a launcher" 1 $?
    check_has "boot: one of many: message" "SLURM_NTASKS=2" out
    MAD_BOOT_FD=99 "$client" >out 2>&1
    check "boot: a stale variable" 1 $?
    check_has "boot: a stale variable: message" "MAD_BOOT_FD=99 is no socket" out
    if command -v mpiexec.mpich >/dev/null; then
        within $limit mpiexec.mpich -n 3 "$client" 3 >out 2>&1 </dev/null
        check "boot: mpiexec.mpich" "0 3" "$? $(grep -c 'good, by PMI-1' out)"
    else
        echo "ok boot: mpiexec.mpich # skip: not installed"
    fi
    if ! command -v mpirun.openmpi >/dev/null; then
        echo "ok boot: mpirun.openmpi # skip: not installed"
    elif ! has_pmix; then
        echo "ok boot: mpirun.openmpi # skip: built without PMIx"
    else
        within $limit mpirun.openmpi --allow-run-as-root --oversubscribe -n 3 "$client" 3 >out 2>&1 </dev/null
        check "boot: mpirun.openmpi" "0 3" "$? $(grep -c 'good, by PMIx' out)"
    fi
}

for t in codes labels kill signals surroundings wrong hosts many boot; do
    "test_$t"
done
[ $failures = 0 ]
