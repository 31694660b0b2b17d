/* SPDX-License-Identifier: BSD-3-Clause */
/* In place of Open MPI's header of this name, which ompi/op/op.h includes and Debian does not install: an integer of Fortran is
 * an int of C.  The installed header comes first where there is one (configure.ac). */
#ifndef OMPI_MPI_FORTRAN_BASE_FINT_2_INT_H
#define OMPI_MPI_FORTRAN_BASE_FINT_2_INT_H

#include <ompi_config.h>

#if OMPI_SIZEOF_FORTRAN_INTEGER != SIZEOF_INT
#error "this Open MPI has integers of Fortran that are not ints: the header fint_2_int.h of Open MPI is necessary"
#endif

#define OMPI_INT_2_FINT(a) (a)

#endif
