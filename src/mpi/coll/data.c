/* SPDX-License-Identifier: BSD-3-Clause */
/* Buffers of MPI datatypes as bytes.  Data without gaps are used in place.  Other data are packed into a copy, or, to be
 * combined, copied with their gaps. */
#include "coll_mad.h"

#include <opal/datatype/opal_convertor.h>
#include <stdlib.h>

static ompi_datatype_t *block_type(const mad_coll_data_t *d, int i)
{
    return d->types ? d->types[i] : d->type;
}

static size_t element_count(const mad_coll_data_t *d, int i)
{
    return d->counts ? (size_t)d->counts[i] : d->count;
}

/* Return the address that MPI means by a block's buffer. */
static unsigned char *block_buf(const mad_coll_data_t *d, int i)
{
    const opal_datatype_t *type = &block_type(d, i)->super;
    ptrdiff_t extent = type->ub - type->lb;
    ptrdiff_t displ = d->types ? d->displs[i] : d->counts ? d->displs[i] * extent : (ptrdiff_t)d->count * extent * i;
    return (unsigned char *)d->buf + displ;
}

/* True if elements of the type follow each other without gaps. */
static bool is_compact(const ompi_datatype_t *type, size_t count)
{
    return (type->super.flags & OPAL_DATATYPE_FLAG_CONTIGUOUS) &&
           (count <= 1 || (type->super.flags & OPAL_DATATYPE_FLAG_NO_GAPS));
}

/* True if the program's memory can be used in place. */
static bool data_is_plain(const mad_coll_data_t *d)
{
    if (!d->counts)
        return is_compact(d->type, d->count * (size_t)d->n);
    for (int i = 0; i < d->n; i++)
        if (!is_compact(block_type(d, i), element_count(d, i)))
            return false;
    return true;
}

/* ---- Packing --------------------------------------------------------------------------------------------------- */

/* Pack elements of the program into bytes, or unpack them. */
static void elements_convert(void *buf, size_t count, ompi_datatype_t *type, unsigned char *bytes, bool packs)
{
    opal_convertor_t convertor;
    size_t len = type->super.size * count;
    struct iovec piece = {bytes, len};
    uint32_t n = 1;
    if (!len)
        return;
    OBJ_CONSTRUCT(&convertor, opal_convertor_t);
    if (packs) {
        opal_convertor_copy_and_prepare_for_send(ompi_mpi_local_convertor, &type->super, count, buf, 0, &convertor);
        opal_convertor_pack(&convertor, &piece, &n, &len);
    } else {
        opal_convertor_copy_and_prepare_for_recv(ompi_mpi_local_convertor, &type->super, count, buf, 0, &convertor);
        opal_convertor_unpack(&convertor, &piece, &n, &len);
    }
    OBJ_DESTRUCT(&convertor);
}

static void block_convert(const mad_coll_data_t *d, int i, bool packs)
{
    elements_convert(block_buf(d, i), element_count(d, i), block_type(d, i), mad_coll_block(d, i), packs);
}

/* Pack or unpack all blocks. */
static void blocks_convert(const mad_coll_data_t *d, bool packs)
{
    if (!d->counts) /* the blocks follow each other */
        elements_convert(d->buf, d->count * (size_t)d->n, d->type, d->copy, packs);
    else
        for (int i = 0; i < d->n; i++)
            block_convert(d, i, packs);
}

/* ---- Blocks ---------------------------------------------------------------------------------------------------- */

/* Use the program's memory: set base, and the offsets from it. */
static void blocks_in_place(mad_coll_data_t *d)
{
    if (!d->counts) {
        d->base = (unsigned char *)d->buf + d->type->super.true_lb;
        return;
    }
    for (int i = 0; i < d->n; i++) {
        unsigned char *block = block_buf(d, i) + block_type(d, i)->super.true_lb;
        if (d->lens[i] && (!d->base || block < d->base))
            d->base = block;
    }
    for (int i = 0; i < d->n; i++)
        d->offsets[i] = d->lens[i] ? (size_t)(block_buf(d, i) + block_type(d, i)->super.true_lb - d->base) : 0;
}

/* Return the length of all blocks, and set the place of each one in a packed copy. */
static size_t blocks_in_copy(mad_coll_data_t *d)
{
    size_t len = 0;
    if (!d->counts)
        return d->len * (size_t)d->n;
    for (int i = 0; i < d->n; i++) {
        d->offsets[i] = len;
        len += d->lens[i];
    }
    return len;
}

mad_status_t mad_coll_data_open(mad_coll_data_t *d, mad_coll_packing_t packing, int one)
{
    size_t len;
    d->len = d->counts ? 0 : d->count * d->type->super.size;
    if (d->counts) {
        d->lens = calloc((size_t)d->n * 2, sizeof *d->lens);
        if (!d->lens)
            return MAD_ERR_NOMEM;
        d->offsets = d->lens + d->n;
        for (int i = 0; i < d->n; i++)
            d->lens[i] = element_count(d, i) * block_type(d, i)->super.size;
    }
    if (OPAL_LIKELY(data_is_plain(d))) {
        blocks_in_place(d);
        return MAD_OK;
    }
    len = blocks_in_copy(d);
    d->copy = d->base = malloc(len ? len : 1);
    if (!d->copy)
        return MAD_ERR_NOMEM;
    if (packing == MAD_COLL_PACK_ALL)
        blocks_convert(d, true);
    else if (packing == MAD_COLL_PACK_ONE)
        block_convert(d, one, true);
    return MAD_OK;
}

/* ---- Elements -------------------------------------------------------------------------------------------------- */

/* Return the address that MPI means by the buffer of a copy with gaps. */
static char *spaced_buf(const mad_coll_data_t *d)
{
    return (char *)d->copy - d->type->super.true_lb;
}

mad_status_t mad_coll_elements_open(mad_coll_data_t *d, bool reads)
{
    size_t extent = (size_t)(d->type->super.ub - d->type->super.lb);
    if (OPAL_LIKELY(is_compact(d->type, 2))) {
        d->base = (unsigned char *)d->buf + d->type->super.true_lb;
        return MAD_OK;
    }
    d->spaced = true;
    d->copy = d->base = calloc(d->count ? d->count : 1, extent);
    if (!d->copy)
        return MAD_ERR_NOMEM;
    if (reads)
        ompi_datatype_copy_content_same_ddt(d->type, d->count, spaced_buf(d), d->buf);
    return MAD_OK;
}

void mad_coll_data_close(mad_coll_data_t *d, bool writes)
{
    if (OPAL_UNLIKELY(d->copy != NULL)) {
        if (writes && d->spaced)
            ompi_datatype_copy_content_same_ddt(d->type, d->count, d->buf, spaced_buf(d));
        else if (writes)
            blocks_convert(d, false);
        free(d->copy);
    }
    free(d->lens);
}
