/* SPDX-License-Identifier: BSD-3-Clause */
/* Charges for channels that are not open here (recv/unopened.c). */
#include "core/conn/conn.h"
#include "core/link/ledger.h"

bool madi_unopened_announced(madi_conn_t *conn)
{
    if (!conn->unopened || conn->unopened_counted)
        return true;
    conn->unopened_counted = madi_charge(conn->gate, MADI_CHARGE_CHANNELS, 1);
    return conn->unopened_counted;
}

void madi_unopened_drained(madi_conn_t *conn)
{
    madi_uncharge(conn->gate, MADI_CHARGE_WAITING, conn->unopened_bytes);
    conn->unopened_bytes = 0;
}

void madi_unopened_end(madi_conn_t *conn)
{
    madi_unopened_drained(conn);
    if (conn->unopened_counted)
        madi_uncharge(conn->gate, MADI_CHARGE_CHANNELS, 1);
    conn->unopened_counted = false;
}
