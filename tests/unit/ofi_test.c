/* SPDX-License-Identifier: BSD-3-Clause */
/* Tests of drivers/ofi/ofi_buffer.c, ofi_memory.c, ofi_name.c and ofi_poll.c, and of drivers/fabric/tag.h. */
#include "unit.h"

#include "drivers/ofi/ofi.h"
#include <stdlib.h>
#include <string.h>

START_TEST(ofi_names_adapter_by_provider_and_domain)
{
    char name[MADI_NAME_MAX];
    ofi_adapter_name("tcp;ofi_rxm", "eth0", name);
    ck_assert_str_eq(name, "tcp+rxm:eth0");
    ofi_adapter_name("a-provider-with-a-name-that-is-long;ofi_rxm", "a-domain-with-a-name-that-is-long", name);
    ck_assert_uint_lt(strlen(name), MADI_NAME_MAX);
}
END_TEST

START_TEST(ofi_names_network_by_fabric_or_host)
{
    char name[MADI_NAME_MAX], other[MADI_NAME_MAX];
    ofi_network_name("tcp;ofi_rxm", "10.1.0.0/24", "boot.1", name);
    ck_assert_str_eq(name, "tcp+rxm:10.1.0.0/24");
    ofi_network_name("shm", "shm", "boot.1", name);
    ck_assert_str_eq(name, "shm:boot.1");
    ofi_network_name("tcp;ofi_rxm", "127.0.0.0/8", "boot.1", name);
    ck_assert_str_eq(name, "tcp+rxm:boot.1");
    ofi_network_name("verbs;ofi_rxm", "IB-0xfe80000000000000-and-more-0", "boot.1", name);
    ofi_network_name("verbs;ofi_rxm", "IB-0xfe80000000000000-and-more-1", "boot.1", other);
    ck_assert_str_ne(name, other);
}
END_TEST

START_TEST(ofi_finds_provider_in_list_by_each_of_its_names)
{
    ck_assert(ofi_list_has("shm,tcp+rxm", "tcp;ofi_rxm"));
    ck_assert(ofi_list_has("tcp;ofi_rxm", "tcp;ofi_rxm"));
    ck_assert(ofi_list_has("shm, tcp", "tcp;ofi_rxm"));
    ck_assert(!ofi_list_has("shm,tc", "tcp;ofi_rxm"));
    ck_assert(!ofi_list_has("", "shm"));
}
END_TEST

START_TEST(ofi_knows_own_provider)
{
    ck_assert(ofi_is_own("mad"));
    ck_assert(ofi_is_own("mad;ofi_rxm"));
    ck_assert(!ofi_is_own("madder"));
}
END_TEST

START_TEST(ofi_tag_keeps_its_fields)
{
    uint64_t tag = fabric_tag(FABRIC_KIND_CONTROL, FABRIC_KEY_MASK, 0xffff) | 0x1234;
    ck_assert_int_eq(fabric_tag_kind(tag), FABRIC_KIND_CONTROL);
    ck_assert_uint_eq(fabric_tag_key(tag), FABRIC_KEY_MASK);
    ck_assert_uint_eq(fabric_tag_index(tag), 0xffff);
    ck_assert_uint_eq(fabric_tag_number(tag), 0x1234);
}
END_TEST

START_TEST(ofi_memory_without_modes_is_named_by_offset_and_own_key)
{
    ofi_memory_mode_t m = ofi_memory_mode(0, 8);
    ck_assert(!m.local && !m.by_address && !m.backed && !m.bound);
    ck_assert_uint_eq(m.key_mask, UINT64_MAX);
    ck_assert_uint_eq(ofi_memory_mode(0, 16).key_mask, UINT64_MAX);
    ck_assert_uint_eq(ofi_memory_mode(0, 4).key_mask, UINT32_MAX);
    ck_assert_uint_eq(ofi_memory_mode(0, 1).key_mask, 255);
}
END_TEST

START_TEST(ofi_memory_mode_has_a_field_for_each_bit)
{
    ck_assert(ofi_memory_mode(FI_MR_LOCAL, 8).local);
    ck_assert(ofi_memory_mode(FI_MR_VIRT_ADDR, 8).by_address);
    ck_assert(ofi_memory_mode(FI_MR_ALLOCATED, 8).backed);
    ck_assert(ofi_memory_mode(FI_MR_ENDPOINT, 8).bound);
    ck_assert_uint_eq(ofi_memory_mode(FI_MR_PROV_KEY, 8).key_mask, 0);
    ofi_memory_mode_t m = ofi_memory_mode(OFI_MEMORY_MODES, 8);
    ck_assert(!m.local && m.by_address && m.backed && m.bound && !m.key_mask);
    ck_assert(ofi_memory_mode(OFI_MEMORY_MODES | FI_MR_LOCAL, 8).local);
}
END_TEST

/* ---- Packets that wait, and reads that do not end ----------------------------------------------------------------- */

static ofi_adapter_t adapter;
static ofi_link_t waiting;

/* Make an adapter with one link, which receives a body, and with no more than the last buffers. */
static void adapter_make(void)
{
    static void *links[] = {&waiting};
    adapter = (ofi_adapter_t){.base.ops = &ofi_ops,
                              .base.links = {.links = links, .n = 1},
                              .n_posted = OFI_BUFFERS / 2,
                              .n_buffers = OFI_BUFFERS_MAX,
                              .max_buffers = OFI_BUFFERS_MAX};
    waiting = (ofi_link_t){.base = {.link.adapter = &adapter.base.adapter,
                                    .link.state = MADI_LINK_DOWN,
                                    .is_up = true,
                                    .key = 1,
                                    .numbered = true,
                                    .own_tag = fabric_tag(FABRIC_KIND_PACKET, 1, 0),
                                    .receiving = &waiting}};
}

static void packet_arrive(uint16_t number, size_t len)
{
    static ofi_buffer_t buffer; /* one serves for all, since it is given back */
    adapter.spent = NULL;
    adapter.n_spent = 0;
    buffer.early.tag = waiting.base.own_tag | number;
    buffer.len = len;
    buffer.data[0] = (char)number;
    ofi_packet_handle(&adapter, &buffer);
}

START_TEST(ofi_packets_that_wait_leave_the_last_buffers)
{
    adapter_make();
    for (uint16_t number = 0; number < 2000; number++) {
        packet_arrive(number, number % 500);
        ck_assert_ptr_nonnull(adapter.spent);
        ck_assert_int_eq(adapter.n_spent, 1);
    }
    adapter.spent = NULL;
    ck_assert(!waiting.base.down);
    uint16_t number = 0;
    for (const fabric_early_t *early = waiting.base.early; early; early = early->next, number++) {
        const ofi_buffer_t *copy = MADI_CONTAINER((fabric_early_t *)early, ofi_buffer_t, early);
        ck_assert_uint_eq(copy->len, number % 500);
        ck_assert(!copy->len || copy->data[0] == (char)number);
    }
    ck_assert_uint_eq(number, 2000);
    waiting.base.receiving = NULL;
    ofi_receive_forget(&waiting);
    ck_assert_ptr_null(adapter.spent); /* only copies have waited */
}
END_TEST

START_TEST(ofi_packets_that_wait_are_bounded)
{
    adapter_make();
    for (uint16_t number = 0; number < 8000 && !waiting.base.down; number++)
        packet_arrive(number, OFI_PACKET_MAX);
    ck_assert(waiting.base.down);
    ck_assert_uint_le(waiting.base.early_bytes, FABRIC_EARLY_BYTES);
    waiting.base.receiving = NULL;
    ofi_receive_forget(&waiting);
}
END_TEST

static void *cancelled; /* context of the cancelled operation whose completion was not read yet; NULL if none */

static ssize_t operation_cancel(fid_t fid, void *context)
{
    (void)fid;
    cancelled = context;
    return 0;
}

static ssize_t completion_read(struct fid_cq *cq, void *buf, size_t count)
{
    (void)cq, (void)buf, (void)count;
    return cancelled ? -FI_EAVAIL : -FI_EAGAIN;
}

static ssize_t error_read(struct fid_cq *cq, struct fi_cq_err_entry *entry, uint64_t flags)
{
    (void)cq, (void)flags;
    *entry = (struct fi_cq_err_entry){.op_context = cancelled, .err = FI_ECANCELED};
    cancelled = NULL;
    return 1;
}

static const char *error_describe(struct fid_cq *cq, int error, const void *data, char *buf, size_t len)
{
    (void)cq, (void)error, (void)data, (void)buf, (void)len;
    return "cancelled";
}

static const char *error_name(int error)
{
    (void)error;
    return "an error";
}

START_TEST(ofi_read_without_answer_leaves_the_endpoint)
{
    struct fi_ops_ep ep_ops = {.size = sizeof ep_ops, .cancel = operation_cancel};
    struct fi_ops_cq cq_ops = {
        .size = sizeof cq_ops, .read = completion_read, .readerr = error_read, .strerror = error_describe};
    struct fid_ep ep = {.ops = &ep_ops};
    struct fid_cq cq = {.ops = &cq_ops};
    ofi_lib_t lib = {.strerror = error_name};
    ofi_body_t *body = calloc(1, sizeof *body);
    adapter_make();
    adapter.lib = &lib;
    adapter.ep = &ep;
    adapter.cq = &cq;
    *body = (ofi_body_t){.left = 1, .parts = 1, .unposted = 1, .flying = 1};
    body->part[0].context = (ofi_context_t){.use = OFI_USE_BODY, .object = body};
    ofi_body_await(&adapter, body);
    ck_assert_int_eq(body->flying, 0);
    ck_assert_ptr_eq(adapter.ep, &ep);
    ck_assert(!adapter.base.broken);
    ck_assert_int_eq(adapter.n_stash, 1);
    free(adapter.stash);
    free(body);
}
END_TEST

Suite *ofi_suite(void)
{
    Suite *s = suite_create("ofi");
    TCase *c = tcase_create("ofi");
    tcase_add_test(c, ofi_names_adapter_by_provider_and_domain);
    tcase_add_test(c, ofi_names_network_by_fabric_or_host);
    tcase_add_test(c, ofi_finds_provider_in_list_by_each_of_its_names);
    tcase_add_test(c, ofi_knows_own_provider);
    tcase_add_test(c, ofi_tag_keeps_its_fields);
    tcase_add_test(c, ofi_memory_without_modes_is_named_by_offset_and_own_key);
    tcase_add_test(c, ofi_memory_mode_has_a_field_for_each_bit);
    tcase_add_test(c, ofi_packets_that_wait_leave_the_last_buffers);
    tcase_add_test(c, ofi_packets_that_wait_are_bounded);
    tcase_add_test(c, ofi_read_without_answer_leaves_the_endpoint);
    suite_add_tcase(s, c);
    return s;
}
