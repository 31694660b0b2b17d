#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# Files that the library and the tools write: never through a link, and never into a file of another user.  Files with
# the job's key are for their owner only, whatever the umask, and are read only if that is so.
src=$(cd "$(dirname "$0")/../.." && pwd)
bin=$(cd "${BUILD:?}" && pwd) || exit 1
. "$src/tests/harness/checks.sh"
work=$(mktemp -d) || exit 1
trap 'rm -rf "$work"' EXIT
trap 'exit 143' TERM INT HUP
cd "$work" || exit 1
host=$(hostname)
unset MAD_TRACE MAD_DRIVERS
echo precious >victim

# untouched NAME: checks that the file to which the links point is unchanged
untouched() { check "$1: what it points at" precious "$(cat victim)"; }

# ---- The job's file ----------------------------------------------------------------------------------------------

# The file exists while the sessions are open, and is removed with the job: rank 0 waits for its standard input.
mkfifo in
for mask in 000 022 777; do
    (umask $mask && exec timeout $limit "$bin/madrun" -n 1 --job-file job "$bin/tests/info_client" <in >out 2>err) &
    job=$!
    exec 3>in
    wait_for test -e job
    check "job's file: umask $mask" 600 "$(stat -c %a job)"
    exec 3>&-
    wait $job
    check "job's file: umask $mask: it goes with the job" no "$([ -e job ] || echo no)"
done

# refused NAME TEXT: checks that madrun does not write the file
refused() {
    within $limit "$bin/madrun" -n 1 --job-file job true >out 2>err
    check "job's file: $1: exit code" 1 $?
    check_lines "job's file: $1" 1 "madrun: --job-file 'job' cannot be written: $2" err
}
ln -s victim job
refused "a link" 'a link, a pipe or a device lies there: remove it'
untouched "job's file: a link"
rm -f job && echo old >job && chmod 644 job
refused "a file that others may read" 'a file with mode 644 lies there, and this one holds a key: remove it'
if [ "$(id -u)" = 0 ]; then
    chmod 600 job && chown 65534 job
    refused "a file of another user" 'a file of user 65534 lies there: choose another name'
fi
rm -f job

# joined NAME TEXT: checks that madgw does not read the file
joined() {
    within $limit "$bin/madgw" --join job >out 2>err
    check "join: $1: exit code" 1 $?
    check_lines "join: $1" 1 "madgw: --join job: $2" err
}
printf 'madeleine-job 3\nkey 00112233445566778899aabbccddeeff\naddress 00\ntopology 0\n' >job
chmod 640 job
joined "others may read it" 'it cannot be read: it holds a key and has mode 640, so that others have access: give it 600'
chmod 602 job
joined "others may write it" 'it cannot be read: it holds a key and has mode 602, so that others have access: give it 600'
if [ "$(id -u)" = 0 ]; then
    chmod 600 job && chown 65534 job
    joined "another user's" 'it cannot be read: it holds a key and belongs to user 65534, not to 0 or root: take a copy of your own'
fi
rm -f job

# ---- Timelines ---------------------------------------------------------------------------------------------------

# traced END COMMAND: runs a program whose timeline would be written to NAMEEND, which this command has created
traced() {
    rm -f t.*
    MAD_TRACE=t within $limit sh -c "$2 t.$host.\$\$.json$1; exec '$bin/tests/world' listen" >out 2>err
}
traced "" "ln -s victim"
untouched "timeline: a link"
check_lines "timeline: a link is explained" 1 \
    'MAD_TRACE: t.*json cannot be written: t.*json is a symbolic link: name the file itself, or remove the link' err
traced .new "ln -s victim"
untouched "timeline: a link where it begins"
check_lines "timeline: a link where it begins is explained" 1 'MAD_TRACE: .* cannot be written: .*json.new is in the way: remove it' err
traced "" mkfifo # nobody reads it
check_lines "timeline: a pipe is explained" 1 'MAD_TRACE: .* cannot be written: .*json is a device or a pipe, not a file: remove it' err
traced "" "ln -s /dev/null"
check_lines "timeline: a link to a device is explained" 1 'MAD_TRACE: .* cannot be written: .*json is a symbolic link' err
rm -f t.*
(umask 000 && MAD_TRACE=t within $limit sh -c "echo old >t.$host.\$\$.json.new; exec '$bin/tests/world' listen" >out 2>err)
check "timeline: what was left unfinished is replaced" 1 "$(find . -name "t.$host.*.json" | wc -l)"
check "timeline: its mode" 600 "$(stat -c %a t."$host".*.json)"

# ---- Tools -------------------------------------------------------------------------------------------------------

cat >topo <<END
networks = { red = { driver = "tcp"; hosts = "a, b"; }; };
END
ln -s victim picture
within $limit "$bin/mad_info" topology topo --svg picture >out 2>err
untouched "picture: a link"
check_has "picture: a link is explained" "picture is a symbolic link" err
within $limit "$bin/mad_info" trace merge t."$host".*.json --output picture >out 2>err
untouched "merged timeline: a link"
check_has "merged timeline: a link is explained" "picture is a symbolic link" err
within $limit "$bin/mad_info" topology topo --svg /dev/stdout 2>err | cat >out
check_has "picture: to a pipe" "</svg>" out
[ $failures = 0 ]
