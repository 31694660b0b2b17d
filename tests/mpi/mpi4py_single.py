# SPDX-License-Identifier: BSD-3-Clause
"""mpi4py with one thread: received data equal sent data.  (Open MPI 4.1 has these windows only if one thread is requested.)

The argument "cm" leaves out synchronous sends of objects: Open MPI 4.1 over cm never answers a synchronous send that is
received after a matched probe, as objects are, with any provider of libfabric."""
import array
import sys

import mpi4py

mpi4py.rc.thread_level = "single"
from mpi4py import MPI

comm = MPI.COMM_WORLD
rank, size = comm.rank, comm.size
right, left = (rank + 1) % size, (rank - 1) % size


def check_end(name):
    comm.barrier()
    if rank == 0:
        print("ok", name, flush=True)


def thing(who):
    return {"rank": who, "list": list(range(1000 * (who + 1))), "text": "x" * 100000, "none": None}


# Objects, by lower-case calls: pickled, of a length that the receiver does not know
assert comm.sendrecv(thing(rank), right, source=left) == thing(left)
for mode in [comm.isend] if "cm" in sys.argv else [comm.isend, comm.issend]:
    request = mode(thing(rank), right, tag=7)
    assert comm.recv(source=MPI.ANY_SOURCE, tag=MPI.ANY_TAG) == thing(left)
    request.wait()
    comm.barrier()
message_sent = comm.isend(thing(rank), right, tag=8)
message = comm.mprobe(source=left)
assert message.recv() == thing(left)
message_sent.wait()
check_end("objects")

assert comm.bcast(thing(0) if rank == 0 else None) == thing(0)
assert comm.allgather(thing(rank)) == [thing(i) for i in range(size)]
assert comm.alltoall([(rank, i) for i in range(size)]) == [(i, rank) for i in range(size)]
assert comm.scatter([thing(i) for i in range(size)] if rank == 0 else None) == thing(rank)
assert comm.allreduce(rank) == size * (size - 1) // 2
assert comm.allreduce("%d " % rank) == "".join("%d " % i for i in range(size))
assert comm.exscan(rank) == (None if rank == 0 else rank * (rank - 1) // 2)
gathered = comm.gather(thing(rank), root=size - 1)
assert gathered is None if rank != size - 1 else gathered == [thing(i) for i in range(size)]
check_end("collectives of objects")

# Arrays, by upper-case calls: received into their own memory
many = array.array("d", [rank + i / 8 for i in range(50000)])
got = array.array("d", [0.0]) * 50000
comm.Sendrecv(many, right, recvbuf=got, source=left)
assert got == array.array("d", [left + i / 8 for i in range(50000)])
comm.Allreduce(many, got, op=MPI.MAX)
assert got == array.array("d", [size - 1 + i / 8 for i in range(50000)])
requests = [comm.Send_init(many, right, tag=3), comm.Recv_init(got, left, tag=3)]
for turn in range(5):
    many[turn] = -turn - rank
    MPI.Prequest.Startall(requests)
    MPI.Request.Waitall(requests)
    assert got[turn] == -turn - left
every_third = MPI.DOUBLE.Create_vector(1000, 1, 3).Commit()
some = array.array("d", [0.0]) * 3000
comm.Sendrecv([many, 1000, MPI.DOUBLE], right, recvbuf=[some, 1, every_third], source=left)
assert some[3 * 10] == left + 10 / 8 and some[3 * 10 + 1] == 0
check_end("arrays")

# Windows
memory = MPI.Alloc_mem(8 * size)
window = MPI.Win.Create(memory, 8, comm=comm)
memory[:] = bytes(8 * size)
window.Fence()
for target in range(size):
    window.Put(array.array("q", [rank * 100 + target]), target, target=rank)
window.Fence()
assert array.array("q", bytes(memory)) == array.array("q", [i * 100 + rank for i in range(size)])
window.Fence()
for turn in range(20):
    window.Lock(0, MPI.LOCK_SHARED)
    window.Accumulate(array.array("q", [1]), 0, target=0)
    window.Unlock(0)
comm.barrier()
window.Lock(0, MPI.LOCK_SHARED)
sum_at_0 = array.array("q", [0])
window.Get(sum_at_0, 0, target=0)
window.Unlock(0)
assert sum_at_0[0] == 20 * size
window.Free()
check_end("windows")

# Groups: halves, and between them
half = comm.Split(rank % 2, rank)
assert half.allgather(rank) == list(range(rank % 2, size, 2))
if size > 1:
    between = half.Create_intercomm(0, comm, 1 - rank % 2)
    assert between.allgather(rank) == list(range(1 - rank % 2, size, 2))
    between.Free()
half.Free()
ring = comm.Create_cart([size], periods=[True])
assert ring.neighbor_allgather(rank) == [left, right]
ring.Free()
check_end("last: groups")
