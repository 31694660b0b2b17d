/* SPDX-License-Identifier: BSD-3-Clause */
#include "drivers/eth/eth_frame.h"

#include <pthread.h>
#include <string.h>

#define CRC32C UINT32_C(0x82f63b78) /* polynomial, its bits reversed */
#define SLICES 8

static uint32_t crc_table[SLICES][256];

static void crc_table_make(void)
{
    for (uint32_t i = 0; i < 256; i++) {
        uint32_t crc = i;
        for (int bit = 0; bit < 8; bit++)
            crc = crc >> 1 ^ (crc & 1 ? CRC32C : 0);
        crc_table[0][i] = crc;
    }
    for (int s = 1; s < SLICES; s++)
        for (int i = 0; i < 256; i++)
            crc_table[s][i] = crc_table[s - 1][i] >> 8 ^ crc_table[0][crc_table[s - 1][i] & 255];
}

static uint32_t crc_by_table(uint32_t crc, const unsigned char *at, size_t len)
{
    for (; len >= 8; at += 8, len -= 8) {
        uint64_t word;
        memcpy(&word, at, sizeof word);
        word ^= crc;
        crc = 0;
        for (int s = 0; s < SLICES; s++)
            crc ^= crc_table[SLICES - 1 - s][word >> 8 * s & 255];
    }
    for (; len; at++, len--)
        crc = crc >> 8 ^ crc_table[0][(crc ^ *at) & 255];
    return crc;
}

#ifdef __x86_64__
__attribute__((target("sse4.2"))) static uint32_t crc_by_card(uint32_t crc, const unsigned char *at, size_t len)
{
    uint64_t sum = crc;
    for (; len >= 8; at += 8, len -= 8) {
        uint64_t word;
        memcpy(&word, at, sizeof word);
        sum = __builtin_ia32_crc32di(sum, word);
    }
    crc = (uint32_t)sum;
    for (; len; at++, len--)
        crc = __builtin_ia32_crc32qi(crc, *at);
    return crc;
}
#endif

static uint32_t crc_add(uint32_t crc, const void *bytes, size_t len)
{
    static pthread_once_t once = PTHREAD_ONCE_INIT;
#ifdef __x86_64__
    if (__builtin_cpu_supports("sse4.2"))
        return crc_by_card(crc, bytes, len);
#endif
    pthread_once(&once, crc_table_make);
    return crc_by_table(crc, bytes, len);
}

bool eth_frame_read(const void *frame, size_t len, eth_head_t *head, const void **body)
{
    if (len < ETH_OVERHEAD)
        return false;
    memcpy(head, (const char *)frame + ETH_OUTER, sizeof *head);
    *body = (const char *)frame + ETH_OVERHEAD;
    if (head->version != ETH_VERSION || head->len > len - ETH_OVERHEAD)
        return false;
    switch ((eth_kind_t)head->kind) {
    case ETH_HANDSHAKE: return head->len > 0 && !head->key && !head->index;
    case ETH_DATA: return head->len > 0 && head->key;
    case ETH_ACK: return head->key && (!head->len || head->len == ETH_BITS * sizeof(uint64_t));
    case ETH_BYE: return head->key && !head->len;
    }
    return false;
}

uint32_t eth_frame_sum(const eth_head_t *head, const struct iovec *body, int n)
{
    eth_head_t copy = *head;
    copy.check = 0;
    uint32_t crc = crc_add(UINT32_MAX, &copy, sizeof copy);
    for (int i = 0; i < n; i++)
        crc = crc_add(crc, body[i].iov_base, body[i].iov_len);
    return crc ? crc : 1;
}

bool eth_frame_is_intact(const eth_head_t *head, const void *body, bool demanded)
{
    struct iovec piece = {(void *)(uintptr_t)body, head->len};
    return head->check ? head->check == eth_frame_sum(head, &piece, 1) : !demanded;
}

void eth_frame_bits(const void *body, uint64_t bits[ETH_BITS])
{
    memcpy(bits, body, ETH_BITS * sizeof *bits);
}
