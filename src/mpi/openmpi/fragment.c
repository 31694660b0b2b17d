/* SPDX-License-Identifier: BSD-3-Clause */
/* Descriptors of fragments. */
#include "btl_mad.h"

static void fragment_construct(mad_btl_fragment_t *f)
{
    f->base.des_segments = f->segments;
    f->base.des_segment_count = 1;
}
OBJ_CLASS_INSTANCE(mad_btl_fragment_t, mca_btl_base_descriptor_t, fragment_construct, NULL);

static int item_init(opal_free_list_item_t *item, void *list)
{
    ((mad_btl_fragment_t *)item)->list = list;
    return OPAL_SUCCESS;
}

static int list_init(opal_free_list_t *list, size_t room)
{
    OBJ_CONSTRUCT(list, opal_free_list_t);
    return opal_free_list_init(list, sizeof(mad_btl_fragment_t), opal_cache_line_size, OBJ_CLASS(mad_btl_fragment_t), room,
                               64, 8, -1, 32, NULL, 0, NULL, item_init, list);
}

int mad_btl_fragments_init(void)
{
    const mca_btl_base_module_t *modules[] = {&mad_btl_memory, &mad_btl_network};
    size_t eager = mad_btl_memory.btl_eager_limit + MAD_BTL_RESERVE;
    int rc = list_init(&mad_btl->eager, eager);
    for (int i = 0; i < 2; i++) {
        size_t room = modules[i]->btl_max_send_size;
        room = modules[i]->btl_eager_limit + MAD_BTL_RESERVE > room ? modules[i]->btl_eager_limit + MAD_BTL_RESERVE : room;
        mad_btl->room = room > mad_btl->room ? room : mad_btl->room;
    }
    return rc == OPAL_SUCCESS ? list_init(&mad_btl->full, mad_btl->room) : rc;
}

static mad_btl_fragment_t *fragment_new(mad_btl_endpoint_t *endpoint, size_t room, uint8_t order, uint32_t flags)
{
    bool small = room <= mad_btl_memory.btl_eager_limit + MAD_BTL_RESERVE;
    mad_btl_fragment_t *f;
    if (OPAL_UNLIKELY(atomic_load_explicit(&endpoint->queued, memory_order_relaxed) >= MAD_BTL_QUEUED_MAX))
        return NULL;
    f = (mad_btl_fragment_t *)opal_free_list_get(small ? &mad_btl->eager : &mad_btl->full);
    if (!f)
        return NULL;
    f->endpoint = endpoint;
    f->base.des_flags = flags;
    f->base.order = order;
    f->base.des_segment_count = 1;
    f->segments[0].seg_addr.pval = f->base.super.ptr;
    return f;
}

mca_btl_base_descriptor_t *mad_btl_alloc(mca_btl_base_module_t *btl, mad_btl_endpoint_t *endpoint, uint8_t order,
                                         size_t size, uint32_t flags)
{
    mad_btl_fragment_t *f;
    (void)btl;
    if (size > mad_btl->room)
        size = mad_btl->room;
    f = fragment_new(endpoint, size, order, flags);
    if (!f)
        return NULL;
    f->segments[0].seg_len = size;
    return &f->base;
}

/* Make a descriptor.  The data are packed after the reserved bytes, or sent in place if they are contiguous. */
mca_btl_base_descriptor_t *mad_btl_prepare_src(mca_btl_base_module_t *btl, mad_btl_endpoint_t *endpoint,
                                               opal_convertor_t *convertor, uint8_t order, size_t reserve, size_t *size,
                                               uint32_t flags)
{
    bool packed = opal_convertor_need_buffers(convertor);
    size_t max = mad_btl->room - reserve;
    mad_btl_fragment_t *f;
    struct iovec iov;
    uint32_t n = 1;
    (void)btl;

    if (*size > max)
        *size = max;
    f = fragment_new(endpoint, packed ? reserve + *size : reserve, order, flags);
    if (!f)
        return NULL;
    iov.iov_base = packed ? (char *)f->segments[0].seg_addr.pval + reserve : NULL;
    iov.iov_len = *size;
    if (opal_convertor_pack(convertor, &iov, &n, size) < 0) {
        mad_btl_free(btl, &f->base);
        return NULL;
    }
    f->segments[0].seg_len = packed ? reserve + *size : reserve;
    if (!packed) {
        f->segments[1].seg_addr.pval = iov.iov_base;
        f->segments[1].seg_len = *size;
        f->base.des_segment_count = 2;
    }
    return &f->base;
}

int mad_btl_free(mca_btl_base_module_t *btl, mca_btl_base_descriptor_t *descriptor)
{
    (void)btl;
    opal_free_list_return(((mad_btl_fragment_t *)descriptor)->list, &descriptor->super);
    return OPAL_SUCCESS;
}
