# SPDX-License-Identifier: BSD-3-Clause
"""A PMI-1 launcher with the limits of Hydra (MPICH 4.2): pmi_server.py RANKS NAME VALUE COMMAND...

NAME: bytes of the store's name.  VALUE: the limit of values that the server announces, final zero included.  The server
ends, and with it the job, if a line in either direction has more than 1,023 bytes, if a key or a value is longer than
announced, or if a byte is not printable.  It removes backslashes from values.  Prints the length of the longest line."""
import os
import selectors
import socket
import subprocess
import sys

LINE, KEY = 1023, 64


def main():
    ranks, name_len, value_max = map(int, sys.argv[1:4])
    space = ("kvs_1234_0_" + "x" * 300)[:name_len]
    store, fence, clients, processes = {}, [], {}, []
    longest = 0

    def answer(sock, text):
        nonlocal longest
        line = text.encode() + b"\n"
        longest = max(longest, len(line))
        if len(line) > LINE:
            sys.exit("pmi_server: an answer of %d bytes: %.60s" % (len(line), text))
        sock.sendall(line)

    def handle(sock, line):
        nonlocal longest
        longest = max(longest, len(line) + 1)
        if len(line) + 1 > LINE or not all(32 <= c < 127 for c in line):
            sys.exit("pmi_server: a request of %d bytes: %.60r" % (len(line) + 1, line))
        words = dict(word.split("=", 1) for word in line.decode().split(" ") if word)
        command = words["cmd"]
        if command == "init":
            answer(sock, "cmd=response_to_init rc=0 pmi_version=1 pmi_subversion=1")
        elif command == "get_maxes":
            answer(sock, "cmd=maxes rc=0 kvsname_max=256 keylen_max=%d vallen_max=%d" % (KEY, value_max))
        elif command == "get_my_kvsname":
            answer(sock, "cmd=my_kvsname rc=0 kvsname=" + space)
        elif command == "put":
            if len(words["key"]) >= KEY or len(words["value"]) >= value_max or words["kvsname"] != space:
                sys.exit("pmi_server: key of %d, value of %d bytes" % (len(words["key"]), len(words["value"])))
            store[words["key"]] = words["value"].replace("\\", "")
            answer(sock, "cmd=put_result rc=0")
        elif command == "get":
            found = store.get(words["key"])
            answer(sock, "cmd=get_result rc=0 found=TRUE value=" + found if found is not None else "cmd=get_result rc=-1 found=FALSE")
        elif command == "barrier_in":
            fence.append(sock)
            if len(fence) == ranks:
                for other in fence:
                    answer(other, "cmd=barrier_out rc=0")
                fence.clear()
        elif command == "finalize":
            answer(sock, "cmd=finalize_ack rc=0")
        else:
            sys.exit("pmi_server: '%s'" % command)

    sel = selectors.DefaultSelector()
    for rank in range(ranks):
        ours, its = socket.socketpair()
        env = dict(os.environ, PMI_FD=str(its.fileno()), PMI_RANK=str(rank), PMI_SIZE=str(ranks))
        processes.append(subprocess.Popen(sys.argv[4:], env=env, pass_fds=[its.fileno()]))
        its.close()
        clients[ours] = b""
        sel.register(ours, selectors.EVENT_READ)
    while sel.get_map():
        for key, _ in sel.select():
            sock = key.fileobj
            data = sock.recv(65536)
            if not data:
                sel.unregister(sock)
            *lines, clients[sock] = (clients[sock] + data).split(b"\n")
            for line in lines:
                handle(sock, line)
    codes = [p.wait() for p in processes]
    print("longest line: %d bytes" % longest)
    sys.exit(max(codes))


main()
