/* SPDX-License-Identifier: BSD-3-Clause */
/* The list of drivers that are linked in: the only place that names them.  Drivers that are built as modules are not in
 * this list. */
#include "core/driver.h"

extern const madi_driver_t madi_driver_self, madi_driver_shm, madi_driver_tcp, madi_driver_skeleton, madi_driver_pipes,
    madi_driver_datagram, madi_driver_eth, madi_driver_fault, madi_driver_virtual, madi_driver_mpi, madi_driver_ofi,
    madi_driver_ucx, madi_driver_verbs;

/* clang-format off */
const madi_driver_t *const madi_drivers[] = {
    &madi_driver_self,
    &madi_driver_shm,
    &madi_driver_tcp,
    &madi_driver_skeleton,
    &madi_driver_pipes,
#ifndef MADI_MODULE_DATAGRAM
    &madi_driver_datagram,
#endif
#ifndef MADI_MODULE_ETH
    &madi_driver_eth,
#endif
#if defined(HAVE_MPI_DRIVER) && !defined(MADI_MODULE_MPI)
    &madi_driver_mpi,
#endif
#if defined(HAVE_OFI_DRIVER) && !defined(MADI_MODULE_OFI)
    &madi_driver_ofi,
#endif
#if defined(HAVE_UCX_DRIVER) && !defined(MADI_MODULE_UCX)
    &madi_driver_ucx,
#endif
#if defined(HAVE_VERBS_DRIVER) && !defined(MADI_MODULE_VERBS)
    &madi_driver_verbs,
#endif
    &madi_driver_fault,
    &madi_driver_virtual,
    NULL};
/* clang-format on */
