#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# Rights that a gateway has given up (src/tools/madgw_confine.h): actions of an attacker that controls the gateway fail,
# and the gateway's own actions still work.
here=$(cd "$(dirname "$0")" && pwd)
. "$here/start.sh"
confined=$BUILD/tests/confined
cd "$dir" || exit 1

within $limit "$confined" read >out 2>err
rc=$?
if [ $rc = 77 ] || grep -q 'without libseccomp\|cannot be installed' err; then
    echo "skipped: no filter of system calls here: $(cat err)"
    exit 77
fi
check "a file is read" 0 $rc

# goes WHAT: checks that the gateway can still do this
goes() {
    within $limit "$confined" "$1" >out 2>err
    check "$1: goes on" 0 $?
    check "$1: nothing is said" "" "$(cat err)"
}
# refused WHAT CALL: checks that this call fails, with one line
refused() {
    within $limit "$confined" "$1" >out 2>err
    check "$1: fails" 3 $?
    check_lines "$1: is said, once" 1 "^madgw: system call [0-9]* is not on the list" err
}
# ends WHAT CALL: checks that this call ends the process
ends() {
    within $limit "$confined" "$1" >out 2>err
    check "$1: ends the process" 159 $?
    shell=
    [ "$1" != fork ] || shell='|^Bad system call$' # glibc 2.41 blocks all signals during a fork
    check_lines "$1: is said, once" 1 \
        "^madgw: system call [0-9]* \($2\) is one that no gateway makes: .*; it ends now\$$shell" err
}
goes read
goes thread
goes socket
for what in write create packet executable handler; do refused $what; done
ends exec execve
ends fork clone
ends ptrace ptrace
ends memory process_vm_writev
ends root setuid
within $limit "$confined" environ >out 2>err
check "its memory is not for others of the user" 3 $?
if [ "$(id -u)" = 0 ]; then
    within $limit "$confined" read >out 2>err
    check "root becomes nobody" "$(id -u nobody)" "$(cat out)"
    within $limit "$confined" read 12345 >out 2>err
    check "root becomes who is named" 12345 "$(cat out)"
    for user in root 0; do
        within $limit "$confined" read $user >out 2>err
        check "root does not stay $user" 2 $?
        check_has "root does not stay $user: is said" "a gateway does not run as root" err
    done
fi
[ $failures = 0 ]
