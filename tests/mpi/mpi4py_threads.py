# SPDX-License-Identifier: BSD-3-Clause
"""mpi4py as it starts by itself, with MPI_THREAD_MULTIPLE: several threads send and receive objects."""
import threading

from mpi4py import MPI

comm = MPI.COMM_WORLD
right, left = (comm.rank + 1) % comm.size, (comm.rank - 1) % comm.size
assert MPI.Query_thread() == MPI.THREAD_MULTIPLE
good = []


def thread_main(me):
    for turn in range(30):
        thing = [me, turn, comm.rank, "x" * (turn * 1000)]
        request = comm.isend(thing, right, tag=me)
        assert comm.recv(source=left, tag=me) == [me, turn, left, "x" * (turn * 1000)]
        request.wait()
    good.append(me)


threads = [threading.Thread(target=thread_main, args=(i,)) for i in range(4)]
for t in threads:
    t.start()
for t in threads:
    t.join()
assert sorted(good) == [0, 1, 2, 3]
comm.barrier()
if comm.rank == 0:
    print("ok last: threads")
