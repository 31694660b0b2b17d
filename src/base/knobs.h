/* SPDX-License-Identifier: BSD-3-Clause */
/* The rows of all knobs.  The numbers MADI_KNOB_id, the table of the parser, mad_info knobs and madeleine-knobs(7) are made
 * from them.  To add a knob: add a row, and read its value with a function of knob.h.
 *
 *   K(id, name, type, default, min, max, help)
 *     type      TEXT, INT, BYTES, MS or BOOL
 *     default   as a user would write it
 *     min, max  limits of numeric values, in the unit of the type; KB, MB and GB are knob.c's
 *
 * man/knobs.awk reads this file: a row begins on a line of its own, and its help on the next one. */
#ifndef MADI_KNOBS_H
#define MADI_KNOBS_H

/* clang-format off */
#define MADI_KNOBS(K) \
    K(LOG, "MAD_LOG", TEXT, "warning", 0, 0, \
      "what is logged: error, warning, info, debug") \
    K(DRIVERS, "MAD_DRIVERS", TEXT, "", 0, 0, \
      "drivers to open, comma-separated; empty: all but datagram, eth, fault, mpi, ofi, pipes, skeleton, " \
      "ucx, and verbs") \
    K(MODULES, "MAD_MODULES", TEXT, "", 0, 0, \
      "folder of drivers that are modules; empty: madeleine/drivers below the library's folder") \
    K(PREFER, "MAD_PREFER", TEXT, "", 0, 0, \
      "the driver to use for every peer that it can reach") \
    K(CONNECT_TIMEOUT, "MAD_CONNECT_TIMEOUT", MS, "10000", 1, INT64_C(1) << 40, \
      "milliseconds within which a connection must be made") \
    K(CONNECT_DELAY, "MAD_CONNECT_DELAY", MS, "50", 1, INT64_C(1) << 40, \
      "milliseconds without an answer after which another path to a peer is tried in parallel") \
    K(RAILS, "MAD_RAILS", INT, "2", 1, 8, \
      "maximum number of networks that are used together for long blocks to one peer; 1: one network only") \
    K(RAILS_RATIO, "MAD_RAILS_RATIO", INT, "4", 1, 1000, \
      "maximum ratio of the bandwidths of two networks that are used together") \
    K(EXIT_TIMEOUT, "MAD_EXIT_TIMEOUT", MS, "5000", 0, INT64_C(1) << 40, \
      "milliseconds that the end of a session or channel waits for messages in flight") \
    K(PEER_TIMEOUT, "MAD_PEER_TIMEOUT", MS, "60000", 1000, INT64_C(1) << 40, \
      "milliseconds without a sign of life after which a peer on the network is dead") \
    K(CREDIT_FLOOR, "MAD_CREDIT_FLOOR", BYTES, "64K", 64 * KB, GB, \
      "bytes that each active connection of a channel may always send without a grant") \
    K(CREDIT_BUDGET, "MAD_CREDIT_BUDGET", BYTES, "64M", 0, INT64_C(1) << 40, \
      "bytes that all connections of the process together may send without a grant, beyond the floors") \
    K(CHECK_SEND_MODE, "MAD_CHECK_SEND_MODE", BOOL, "no", 0, 1, \
      "blocks carry the send mode too, and the receiver checks it (debugging)") \
    K(SPIN, "MAD_SPIN", INT, "-1", -1, 1000000, \
      "microseconds that a wait spins before it sleeps; -1: by the state of the host") \
    K(PROGRESS_THREAD, "MAD_PROGRESS_THREAD", BOOL, "yes", 0, 1, \
      "a thread of the library makes progress with requests and handlers while the program computes, and otherwise " \
      "sleeps") \
    K(NUMA, "MAD_NUMA", BOOL, "yes", 0, 1, \
      "adapters near the processors of the process come before others, and the progress thread runs near the adapter, on " \
      "hosts with several NUMA nodes") \
    K(WORKERS, "MAD_WORKERS", INT, "0", 0, 1024, \
      "kernel threads that run user-level threads; 0: one for each core that the process may use") \
    K(WORKERS_BIND, "MAD_WORKERS_BIND", INT, "-1", -1, 1, \
      "1: bind each worker to its core; 0: do not bind; -1: bind if the process may use only a part of the host") \
    K(MONITOR, "MAD_MONITOR", MS, "10", 0, 100000, \
      "milliseconds between checks for workers that are blocked by a thread in a system call; 0: no checks") \
    K(STACK_SIZE, "MAD_STACK_SIZE", BYTES, "64K", 16 * KB, GB, \
      "slot of a user-level thread: stack, guard and control block, rounded up to a power of two") \
    K(STACK_GUARDS, "MAD_STACK_GUARDS", INT, "-1", -1, 1000000000, \
      "maximum number of guard pages of stacks if each costs the kernel mappings (before Linux 6.13); -1: from " \
      "vm.max_map_count") \
    K(SHM_DIR, "MAD_SHM_DIR", TEXT, "", 0, 0, \
      "directory of the sockets over which shared memory is passed; empty: a private one in /tmp") \
    K(SHM_DIRECT, "MAD_SHM_DIRECT", BOOL, "yes", 0, 1, \
      "long blocks are copied directly from memory to memory if the kernel permits it: blocks of requests by the process" \
      " that waits for them, others by both processes if that is faster") \
    K(SHM_READ_MIN, "MAD_SHM_READ_MIN", BYTES, "0", 0, GB, \
      "length from which on a block whose sender waits is copied directly from memory to memory, if messages and answers" \
      " alternate; 0: from the costs of this host, and from 32K on by what is faster") \
    K(COSTS, "MAD_COSTS", TEXT, "", 0, 0, \
      "file with the costs of moving bytes on this host, which madrun and mad_info measure; empty: one in the user's " \
      "cache folder; none: costs are neither read nor measured") \
    K(TCP_INTERFACES, "MAD_TCP_INTERFACES", TEXT, "", 0, 0, \
      "network interfaces to use, comma-separated; empty: all that are up") \
    K(TCP_PORTS, "MAD_TCP_PORTS", TEXT, "", 0, 0, \
      "ports to listen on, LOW-HIGH; empty: any") \
    K(TCP_NETWORK, "MAD_TCP_NETWORK", TEXT, "", 0, 0, \
      "network names, INTERFACE=NAME comma-separated; empty: by subnet") \
    K(TCP_ALLOW, "MAD_TCP_ALLOW", TEXT, "", 0, 0, \
      "addresses to which connections may be made and from which they are accepted, NETWORK[:PORTS] comma-separated, as " \
      "10.1.0.0/16:4000-4999; subnets: those of the interfaces; empty: any") \
    K(TCP_SECURITY, "MAD_TCP_SECURITY", TEXT, "", 0, 0, \
      "none, auth, or seal for connections over all interfaces, or INTERFACE=WORD comma-separated; empty: from the " \
      "topology file, or auth without one") \
    K(ETH_INTERFACES, "MAD_ETH_INTERFACES", TEXT, "", 0, 0, \
      "interfaces that the driver eth uses, comma-separated; empty: all Ethernet interfaces that are up") \
    K(ETH_NETWORK, "MAD_ETH_NETWORK", TEXT, "", 0, 0, \
      "network names of the driver eth, INTERFACE=NAME comma-separated; empty: by IPv4 subnet") \
    K(ETH_RING, "MAD_ETH_RING", BYTES, "8M", 256 * KB, GB, \
      "memory of an interface of the driver eth for frames that have arrived") \
    K(ETH_RINGS, "MAD_ETH_RINGS", TEXT, "packet", 0, 0, \
      "how frames come to the driver eth: packet (AF_PACKET); xdp (AF_XDP where the host permits it, else AF_PACKET)") \
    K(ETH_CHECKSUM, "MAD_ETH_CHECKSUM", INT, "-1", -1, 1, \
      "1: frames to this process carry a check sum; 0: none; -1: where neither a card nor shared memory protects frames") \
    K(ETH_BYPASS, "MAD_ETH_BYPASS", BOOL, "no", 0, 1, \
      "frames of the driver eth bypass the queueing discipline of the interface (tc)") \
    K(MPI_COMM, "MAD_MPI_COMM", INT, "0", INT32_MIN, INT32_MAX, \
      "communicator of MPI that the driver mpi uses, as a handle of Fortran (MPI_Comm_c2f); 0: MPI_COMM_WORLD") \
    K(MPI_LIBRARY, "MAD_MPI_LIBRARY", TEXT, "", 0, 0, \
      "file of the MPI library that the driver mpi loads if the program has none; empty: by the launcher") \
    K(MPI_THREADS, "MAD_MPI_THREADS", TEXT, "serialized", 0, 0, \
      "level of threads with which the driver mpi initialises MPI if the program has not: serialized or multiple") \
    K(OFI_PROVIDERS, "MAD_OFI_PROVIDERS", TEXT, "", 0, 0, \
      "providers of libfabric that the driver ofi uses, comma-separated, as tcp+rxm or shm; empty: all but the slow ones") \
    K(REGISTER_CACHE, "MAD_REGISTER_CACHE", BYTES, "256M", 0, INT64_C(1) << 40, \
      "memory of blocks that stays registered with an RDMA device after its use, if the kernel reports what is unmapped; " \
      "0: none") \
    K(REGISTER_CHECK, "MAD_REGISTER_CHECK", BOOL, "no", 0, 1, \
      "every use of memory that has stayed registered checks that it was not replaced (debugging)") \
    K(VERBS_CM, "MAD_VERBS_CM", BOOL, "no", 0, 1, \
      "queue pairs of RDMA devices are connected by rdma_cm, as those of iWARP always are; the same in all processes") \
    K(SEAL_CIPHER, "MAD_SEAL_CIPHER", TEXT, "TLS_AES_128_GCM_SHA256", 0, 0, \
      "cipher of sealed connections, the same in all processes: TLS_AES_128_GCM_SHA256, TLS_AES_256_GCM_SHA384, or " \
      "TLS_CHACHA20_POLY1305_SHA256") \
    K(SEAL_CERTIFICATE, "MAD_SEAL_CERTIFICATE", TEXT, "", 0, 0, \
      "file (PEM) of the certificate, and of its chain, that this end of sealed connections presents; empty: the job's " \
      "key is used instead") \
    K(SEAL_PRIVATE_KEY, "MAD_SEAL_PRIVATE_KEY", TEXT, "", 0, 0, \
      "file (PEM) of the private key of MAD_SEAL_CERTIFICATE") \
    K(SEAL_AUTHORITY, "MAD_SEAL_AUTHORITY", TEXT, "", 0, 0, \
      "file (PEM) of the authorities whose certificates the other end may present") \
    K(SEAL_KERNEL, "MAD_SEAL_KERNEL", BOOL, "yes", 0, 1, \
      "the kernel encrypts what sealed connections send, if it can (kernel TLS, Linux 6.14)") \
    K(TOPOLOGY, "MAD_TOPOLOGY", TEXT, "", 0, 0, \
      "topology file (or hex: and its text in hexadecimal digits), by which peers on other networks are reached through " \
      "gateways; empty: no gateways") \
    K(GATEWAYS, "MAD_GATEWAYS", TEXT, "", 0, 0, \
      "addresses of gateways that no peer announces, in hexadecimal digits, comma-separated (set by madrun --around); " \
      "empty: none") \
    K(HOST, "MAD_HOST", TEXT, "", 0, 0, \
      "the name of this host in the topology file; empty: the host's own name") \
    K(VIRTUAL_CHANNEL, "MAD_VIRTUAL_CHANNEL", TEXT, "", 0, 0, \
      "the virtual channel of the topology file whose paths through gateways are used by channels that the file does not" \
      " name; empty: the first one") \
    K(FORWARD_BUDGET, "MAD_FORWARD_BUDGET", BYTES, "128M", 1 * MB, INT64_C(1) << 40, \
      "memory for data that pass through this process as a gateway") \
    K(FORWARD_FRAGMENT, "MAD_FORWARD_FRAGMENT", BYTES, "0", 0, 256 << 10, \
      "length of the fragments that this process sends through gateways (for measuring); 0: the best length for the " \
      "networks of the topology file") \
    K(FORWARD_LINGER, "MAD_FORWARD_LINGER", MS, "3600000", 0, INT64_C(1) << 40, \
      "milliseconds that the end of a session waits for messages of other processes that pass through this one") \
    K(FORWARD_WINDOW, "MAD_FORWARD_WINDOW", BYTES, "2M", 256 * KB, INT64_C(1) << 32, \
      "bytes that may be in flight to a peer behind gateways, and are kept until the peer has received them") \
    K(FORWARD_DETECT, "MAD_FORWARD_DETECT", MS, "5000", 0, INT64_C(1) << 40, \
      "milliseconds without an answer after which adjacent processes consider a gateway dead (the default is longer if " \
      "more than 16 processes share a core); 0: only when its connection ends") \
    K(FORWARD_DEADLINE, "MAD_FORWARD_DEADLINE", MS, "10000", 0, INT64_C(1) << 40, \
      "milliseconds that a peer behind gateways may be without a path before it is lost") \
    K(COLL, "MAD_COLL", TEXT, "", 0, 0, \
      "forms of collective operations, OPERATION=FORM comma-separated, as allreduce=ring, the same in all processes; " \
      "others, and those that do not fit: by their expected times") \
    K(TRACE, "MAD_TRACE", TEXT, "", 0, 0, \
      "keep a timeline, and write it to files whose names begin with this prefix: PREFIX.HOST.PID.json; empty: no " \
      "timeline") \
    K(TRACE_EVENTS, "MAD_TRACE_EVENTS", INT, "65536", 64, 1 << 20, \
      "number of events of the timeline that are kept, the most recent ones (72 bytes each)") \
    K(FAULT, "MAD_FAULT", TEXT, "self,shm,tcp", 0, 0, \
      "drivers that the driver fault wraps and disturbs, comma-separated (testing)") \
    K(FAULT_SEED, "MAD_FAULT_SEED", INT, "0", 0, INT64_MAX, \
      "number that determines the decisions of the driver fault; 0: a random one, which is logged") \
    K(FAULT_DELAY, "MAD_FAULT_DELAY", INT, "20", 0, 100, \
      "fault: percent of packets, completions, polls, and links that are delayed") \
    K(FAULT_DELAY_US, "MAD_FAULT_DELAY_US", INT, "200", 0, 10000000, \
      "fault: microseconds of the longest delay") \
    K(FAULT_AGAIN, "MAD_FAULT_AGAIN", INT, "20", 0, 95, \
      "fault: percent of sends that are refused") \
    K(FAULT_ARM, "MAD_FAULT_ARM", INT, "30", 0, 95, \
      "fault: percent of attempts to sleep that report work although there is none") \
    K(FAULT_SHORT, "MAD_FAULT_SHORT", BOOL, "yes", 0, 1, \
      "fault: packets and pieces of blocks are short") \
    K(FAULT_LOAN, "MAD_FAULT_LOAN", TEXT, "some", 0, 0, \
      "fault: bodies of packets are lent to the receiver: some, always, or never") \
    K(FAULT_CUT, "MAD_FAULT_CUT", INT, "0", 0, INT64_C(1) << 40, \
      "fault: number of packets after which a link is cut; 0: never") \
    K(FAULT_CUT_ONE_IN, "MAD_FAULT_CUT_ONE_IN", INT, "0", 0, INT64_C(1) << 40, \
      "fault: a link is cut at random, at one packet in N; 0: never")
/* clang-format on */

#endif
