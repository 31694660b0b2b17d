/* SPDX-License-Identifier: BSD-3-Clause */
/* Counters: all numbers of "mad_info stats", a row each.  The query's answer (JSON), the tables of mad_info stats, its
 * rates, its output for Prometheus, and the section of mad_info(1) that describes them are made from these rows.
 *
 * To add a counter: add a row, and count where the row says.
 *   of networks             row N of MADI_COUNTERS_GATE        MADI_GATE_COUNT (core/object/gate.h)
 *   of channels, networks   row N of MADI_COUNTERS_MOVED       MADI_CONN_COUNT (core/object/conn.h)
 *   of forwarding           row C of MADI_COUNTERS_FORWARDING  GW_COUNT (gateway/state.h)
 * All others, and values that other state gives (rows C), are reported with madi_count_write, those of the first two lists
 * in stats.c's gate_row and write_channel_counts.
 *
 *   C(group, key, kind, unit, column, where, text)
 *   N(...)       like C, but gates or connections have a number for this row, which is added up and reported by itself
 *     group    madi_counter_groups has the object that the key is a member of
 *     kind     COUNTER: never goes down, and is shown as a rate; GAUGE: may go down; FLAG: true or false
 *     column   head in the tables of mad_info stats; NULL: not shown there
 *     where    FILE: NAME, the file below src that counts it, and what it is called there
 *
 * Rows have the order of the tables and of Prometheus's output; the answer has that of the calls of madi_count_write.
 * man/counters.awk reads this file: a row is one line, or two of which the second has the text. */
#ifndef MADI_COUNTERS_H
#define MADI_COUNTERS_H

#include <stdbool.h>
#include <stddef.h>

/* Messages and bytes of a driver, network or channel.  N: each connection has a number for the row. */
#define MADI_COUNTERS_MOVED(C, N, group) \
    C(group, peers, GAUGE, "peers", "peers", "core/connect/gate.c: state", "Peers to whom there is a connection.") \
    C(group, messages_sent, COUNTER, "messages", "sent", "core/api/pack_end.c: tx_seq", \
      "Messages sent; fragments in the classes streams and forwarded.") \
    C(group, bytes_sent, COUNTER, "bytes", "bytes", "core/conn/credit.h: madi_credit_used", \
      "Bytes sent: packets with their headers in units of 64 bytes, and long blocks.") \
    N(group, messages_received, COUNTER, "messages", "received", "core/dispatch.c: messages_received", \
      "Messages received; fragments in the classes streams and forwarded.") \
    C(group, bytes_received, COUNTER, "bytes", "bytes", "core/dispatch.c: rx_held", \
      "Bytes received, counted as those sent.") \
    C(group, messages_queued, GAUGE, "messages", "queued", "core/inspect/stats.c: queue", "Messages that wait to be sent.")

/* Long blocks of a driver or network, and what else gates count; out, in: columns.  N: each gate has a number for the
 * row. */
#define MADI_COUNTERS_GATE(C, N, group, out, in) \
    C(group, blocks_sent, COUNTER, "blocks", out, "core/send/rdv_send.c: granted_blocks", \
      "Long blocks sent after a grant, or from memory to memory.") \
    C(group, block_bytes_sent, COUNTER, "bytes", NULL, "core/send/rdv_send.c: granted_bytes", \
      "Bytes of these, which are counted in bytes_sent, too.") \
    C(group, blocks_received, COUNTER, "blocks", in, "core/recv/rdv_recv.c: taken_blocks", "Long blocks received.") \
    C(group, block_bytes_received, COUNTER, "bytes", NULL, "core/recv/rdv_recv.c: taken_bytes", \
      "Bytes of these, which are counted in bytes_received, too.") \
    N(group, times_full, COUNTER, "times", "full", "core/send/queue.c: times_full", \
      "How often the network took no packet at once.") \
    N(group, rail_bytes_sent, COUNTER, "bytes", NULL, "core/rails/rails_send.c: rail_bytes_sent", \
      "Bytes of long blocks that went over other networks together with this one (MAD_RAILS).") \
    N(group, rails_lost, COUNTER, "times", NULL, "core/rails/rails_lost.c: rails_lost", \
      "How often one of several networks to a peer failed.") \
    N(group, packets_again, COUNTER, "packets", NULL, "core/rails/rails_lost.c: packets_again", \
      "Packets that were sent again over another network after that.")

/* Further rows of a channel. */
#define MADI_COUNTERS_CHANNELS(C) \
    C(CHANNELS, messages_waiting, GAUGE, "messages", "waiting", "core/recv/ready.c: n_ready", \
      "Messages that nobody has received yet.") \
    C(CHANNELS, peers_out_of_credit, GAUGE, "peers", "out of credit", "core/send/queue.c: starved", \
      "Peers to whom messages wait until they have received.")

/* Streams and fragments of a session.  A new counter is a row here, and a GW_COUNT (gateway/state.h). */
#define MADI_COUNTERS_FORWARDING(C) \
    C(FORWARDING, virtual_links, GAUGE, "links", NULL, "gateway/report.c: ends", "Virtual links that end here.") \
    C(FORWARDING, streams, GAUGE, "streams", NULL, "gateway/transit.c: n_transits", "Streams of others that pass through.") \
    C(FORWARDING, streams_opened, COUNTER, "streams", NULL, "gateway/transit.c: streams_opened", \
      "Streams that were opened through this process.") \
    C(FORWARDING, streams_refused, COUNTER, "streams", NULL, "gateway/transit.c: streams_refused", \
      "Streams that were refused here.") \
    C(FORWARDING, fragments, COUNTER, "fragments", NULL, "gateway/transit.c: fragments", "Fragments that were passed on.") \
    C(FORWARDING, bytes, COUNTER, "bytes", NULL, "gateway/transit.c: bytes", "Bytes of fragments that were passed on.") \
    C(FORWARDING, copies, COUNTER, "fragments", NULL, "gateway/arrive.c: copies", "Fragments that had to be copied.") \
    C(FORWARDING, credit_stalls, COUNTER, "times", NULL, "gateway/hop.h: stalls", \
      "How often a stream had to wait for credit of the next process.") \
    C(FORWARDING, resends, COUNTER, "fragments", NULL, "gateway/resume.c: resends", \
      "Fragments that were sent again on another way.") \
    C(FORWARDING, rerouted, COUNTER, "times", NULL, "gateway/resume.c: rerouted", \
      "How often a stream that ends here has taken another way.") \
    C(FORWARDING, links_given_up, COUNTER, "links", NULL, "gateway/resume.c: links_given_up", \
      "Virtual links that were given up.") \
    C(FORWARDING, gateways_silent, COUNTER, "gateways", NULL, "gateway/alive.c: gateways_silent", \
      "Gateways that gave no sign of life.") \
    C(FORWARDING, draining, FLAG, "", NULL, "gateway/migrate.c: draining", \
      "Whether it asks streams to take other ways, and takes no new ones.") \
    C(FORWARDING, bytes_unacknowledged, GAUGE, "bytes", NULL, "gateway/window.c: bytes", \
      "Bytes sent from here that the other ends have not acknowledged.") \
    C(FORWARDING, fragments_held, GAUGE, "fragments", NULL, "gateway/hop.c: n_held", "Fragments that wait here.") \
    C(FORWARDING, fragments_held_most, GAUGE, "fragments", NULL, "gateway/hop.c: n_held_most", \
      "The most fragments that ever waited here.") \
    C(FORWARDING, bytes_held, GAUGE, "bytes", NULL, "gateway/hop.c: held", "Memory of fragments that wait here, in bytes.") \
    C(FORWARDING, bytes_held_most, GAUGE, "bytes", NULL, "gateway/hop.c: held_most", "The most of it ever, in bytes.") \
    C(FORWARDING, budget, GAUGE, "bytes", NULL, "gateway/virtual.c: budget_all", \
      "Memory for fragments (MAD_FORWARD_BUDGET), in bytes.") \
    C(FORWARDING, budget_left, GAUGE, "bytes", NULL, "gateway/credit.c: budget", "What is not promised of it, in bytes.")

/* Gateways of a host. */
#define MADI_COUNTERS_GATEWAYS(C) \
    C(GATEWAYS, up, GAUGE, "processes", NULL, "gateway/report.c: up", \
      "Processes on a gateway's host to which there is a connection.") \
    C(GATEWAYS, leaving, GAUGE, "processes", NULL, "gateway/report.c: leaving", "Such as ask streams to take other ways.") \
    C(GATEWAYS, lost, GAUGE, "processes", NULL, "gateway/report.c: lost", "Such as the connection to is lost.")

/* Streams of a route. */
#define MADI_COUNTERS_ROUTES(C) \
    C(ROUTES, streams, GAUGE, "streams", "streams", "gateway/count.c: open", "Streams of this route.") \
    C(ROUTES, streams_opened, COUNTER, "streams", NULL, "gateway/count.c: opened", \
      "Streams of this route that were ever opened.") \
    C(ROUTES, fragments_there, COUNTER, "fragments", "there", "gateway/count.c: there", \
      "Fragments sent towards the destination.") \
    C(ROUTES, bytes_there, COUNTER, "bytes", "bytes", "gateway/count.c: there", \
      "Bytes of fragments sent towards the destination.") \
    C(ROUTES, fragments_back, COUNTER, "fragments", "back", "gateway/count.c: back", "Fragments that came from there.") \
    C(ROUTES, bytes_back, COUNTER, "bytes", "bytes", "gateway/count.c: back", "Bytes of fragments that came from there.") \
    C(ROUTES, fragments_queued, GAUGE, "fragments", "queued", "gateway/hop.c: queued", \
      "Fragments that wait for the next network.") \
    C(ROUTES, bytes_queued, GAUGE, "bytes", "bytes", "gateway/hop.c: queued_bytes", \
      "Bytes of fragments that wait for the next network.") \
    C(ROUTES, fragments_queued_most, GAUGE, "fragments", "at most", "gateway/hop.h: queued_most", \
      "The most fragments of one stream that ever waited.") \
    C(ROUTES, bytes_queued_most, GAUGE, "bytes", "bytes", "gateway/hop.h: queued_bytes_most", \
      "The most bytes of one stream that ever waited.") \
    C(ROUTES, credit_stalls, COUNTER, "times", "stalls", "gateway/count.c: stalls", \
      "How often a stream of this route had to wait for credit.") \
    C(ROUTES, resends, COUNTER, "fragments", "resends", "gateway/count.c: resends", \
      "Fragments that were sent again on another way.")

/* Waits of the process. */
#define MADI_COUNTERS_WAITING(C) \
    C(WAITING, threads, GAUGE, "threads", NULL, "engine/progress_thread.c: inside", "Threads that wait in the library.") \
    C(WAITING, user_level_threads, GAUGE, "threads", NULL, "engine/leader.c: blocked", \
      "User-level threads that wait in the library.") \
    C(WAITING, sleeps, COUNTER, "times", NULL, "engine/engine.c: sleeps", \
      "How often a thread that polls for all has slept.") \
    C(WAITING, wakes, COUNTER, "times", NULL, "engine/waiter.c: wakes", "How often a thread that slept was woken.") \
    C(WAITING, polls, COUNTER, "times", NULL, "engine/engine.c: polls", "Looks for something to do.") \
    C(WAITING, hits, COUNTER, "times", NULL, "engine/engine.c: hits", "Looks that found something.")

/* User-level threads of the process. */
#define MADI_COUNTERS_MARCEL(C) \
    C(MARCEL, workers, GAUGE, "threads", NULL, "marcel/init.c: n_workers", "Kernel threads that run user-level threads.") \
    C(MARCEL, created, COUNTER, "threads", NULL, "marcel/create.c: created", "User-level threads made.") \
    C(MARCEL, ended, COUNTER, "threads", NULL, "marcel/thread_end.c: ended", "User-level threads that have ended.") \
    C(MARCEL, switches, COUNTER, "times", NULL, "marcel/sched.c: switches", "Switches between user-level threads.") \
    C(MARCEL, steals, COUNTER, "threads", NULL, "marcel/share.c: steals", "Threads that a worker took from another one.") \
    C(MARCEL, idles, COUNTER, "times", NULL, "marcel/worker.c: idles", "How often a worker had none.") \
    C(MARCEL, retaken, COUNTER, "workers", NULL, "marcel/monitor.c: madi_monitor_retaken", \
      "Workers taken from threads in a system call.")

/* All rows, in order. */
#define MADI_COUNTERS(C) \
    MADI_COUNTERS_MOVED(C, C, TRAFFIC) \
    MADI_COUNTERS_GATE(C, C, TRAFFIC, "blocks out", "blocks in") \
    MADI_COUNTERS_MOVED(C, C, NETWORKS) \
    MADI_COUNTERS_GATE(C, C, NETWORKS, NULL, NULL) \
    MADI_COUNTERS_MOVED(C, C, CHANNELS) \
    MADI_COUNTERS_CHANNELS(C) \
    MADI_COUNTERS_FORWARDING(C) \
    MADI_COUNTERS_GATEWAYS(C) \
    MADI_COUNTERS_ROUTES(C) \
    MADI_COUNTERS_WAITING(C) \
    MADI_COUNTERS_MARCEL(C)

/* Numbers of the rows: MADI_COUNT_GROUP_key. */
#define MADI_COUNTER_ID(group, key, kind, unit, column, where, text) MADI_COUNT_##group##_##key,
typedef enum madi_counter_id { MADI_COUNTERS(MADI_COUNTER_ID) MADI_COUNTS } madi_counter_id_t;

/* Places of the rows MOVED: MADI_MOVED_key.  Places of the numbers of a connection and of a gate: those of the rows N. */
#define MADI_COUNTER_NONE(group, key, kind, unit, column, where, text)
#define MADI_MOVED_PLACE(group, key, kind, unit, column, where, text) MADI_MOVED_##key,
#define MADI_CONN_PLACE(group, key, kind, unit, column, where, text) MADI_CONN_COUNT_##key,
#define MADI_GATE_PLACE(group, key, kind, unit, column, where, text) MADI_GATE_COUNT_##key,
enum madi_moved_place { MADI_COUNTERS_MOVED(MADI_MOVED_PLACE, MADI_MOVED_PLACE, ) MADI_MOVED_COUNTS };
enum madi_conn_place { MADI_COUNTERS_MOVED(MADI_COUNTER_NONE, MADI_CONN_PLACE, ) MADI_CONN_COUNTS };
enum madi_gate_place { MADI_COUNTERS_GATE(MADI_COUNTER_NONE, MADI_GATE_PLACE, , , ) MADI_GATE_COUNTS };

typedef enum madi_counter_kind { MADI_COUNT_COUNTER, MADI_COUNT_GAUGE, MADI_COUNT_FLAG } madi_counter_kind_t;

typedef enum madi_counter_group_id {
    MADI_GROUP_TRAFFIC,
    MADI_GROUP_NETWORKS,
    MADI_GROUP_CHANNELS,
    MADI_GROUP_FORWARDING,
    MADI_GROUP_GATEWAYS,
    MADI_GROUP_ROUTES,
    MADI_GROUP_WAITING,
    MADI_GROUP_MARCEL,
    MADI_GROUPS
} madi_counter_group_id_t;

typedef struct madi_counter_row {
    madi_counter_group_id_t group;
    const char *key; /* name of the member in the objects of its group */
    madi_counter_kind_t kind;
    const char *unit, *column, *where, *text; /* as in the rows above */
} madi_counter_row_t;

typedef struct madi_counter_group {
    const char *key;      /* name of the member in a session's object: an array of objects, or one object */
    const char *prefix;   /* prefix of the names of the group's metrics */
    bool of_process;      /* true if the value is equal in all sessions of a process */
    bool of_forwarding;   /* member of the session's member forwarding */
    const char *names[4]; /* members that identify an object of the array; used as labels */
    const char *label;    /* label for the first of these names; NULL: that name itself */
} madi_counter_group_t;

#pragma GCC visibility push(hidden)

extern const madi_counter_row_t madi_counters[MADI_COUNTS];
extern const madi_counter_group_t madi_counter_groups[MADI_GROUPS];

#pragma GCC visibility pop

#endif
