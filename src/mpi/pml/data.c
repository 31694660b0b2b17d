/* SPDX-License-Identifier: BSD-3-Clause */
/* Buffers of MPI datatypes.  Contiguous data are passed to the device in place.  Other data are packed into a copy by
 * Open MPI's convertor, which also unpacks. */
#include "pml_mad.h"

#include <stdlib.h>

/* Allocate a packed copy, without setting its bytes. */
static int data_alloc(mad_pml_data_t *data, size_t len, ompi_datatype_t *type)
{
    data->packed = malloc(len ? len : 1);
    if (!data->packed)
        return OMPI_ERR_OUT_OF_RESOURCE;
    data->piece = (struct iovec){data->packed, len};
    data->type = type;
    OMPI_DATATYPE_RETAIN(type);
    return OMPI_SUCCESS;
}

static void data_convert(opal_convertor_t *convertor, struct iovec piece, bool packs)
{
    uint32_t n = 1;
    size_t len = piece.iov_len;
    if (!len)
        return;
    if (packs)
        opal_convertor_pack(convertor, &piece, &n, &len);
    else
        opal_convertor_unpack(convertor, &piece, &n, &len);
}

int mad_pml_data_pack(mad_pml_data_t *data, const void *buf, size_t count, ompi_datatype_t *type)
{
    if (data_alloc(data, type->super.size * count, type) != OMPI_SUCCESS)
        return OMPI_ERR_OUT_OF_RESOURCE;
    opal_convertor_copy_and_prepare_for_send(ompi_mpi_local_convertor, &type->super, count, buf, 0, &data->convertor);
    data_convert(&data->convertor, data->piece, true);
    return OMPI_SUCCESS;
}

void mad_pml_data_pack_to(void *to, const void *buf, size_t count, ompi_datatype_t *type)
{
    opal_convertor_t convertor;
    OBJ_CONSTRUCT(&convertor, opal_convertor_t);
    opal_convertor_copy_and_prepare_for_send(ompi_mpi_local_convertor, &type->super, count, buf, 0, &convertor);
    data_convert(&convertor, (struct iovec){to, type->super.size * count}, true);
    OBJ_DESTRUCT(&convertor);
}

int mad_pml_data_room(mad_pml_data_t *data, void *buf, size_t count, ompi_datatype_t *type)
{
    if (data_alloc(data, type->super.size * count, type) != OMPI_SUCCESS)
        return OMPI_ERR_OUT_OF_RESOURCE;
    opal_convertor_copy_and_prepare_for_recv(ompi_mpi_local_convertor, &type->super, count, buf, 0, &data->convertor);
    return OMPI_SUCCESS;
}

void mad_pml_data_unpack(mad_pml_data_t *data, size_t len)
{
    data_convert(&data->convertor, (struct iovec){data->packed, len}, false);
}

void mad_pml_data_release(mad_pml_data_t *data)
{
    opal_convertor_cleanup(&data->convertor);
    OMPI_DATATYPE_RELEASE(data->type);
    free(data->packed);
    data->packed = NULL;
    data->type = NULL;
}
