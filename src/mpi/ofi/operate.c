/* SPDX-License-Identifier: BSD-3-Clause */
/* Atomic operations on elements, which need not be aligned. */
#include "ofi.h"

#include <complex.h>

/* ---- One type ----------------------------------------------------------------------------------------------------- */

/* Replace an element if it still has the old value; otherwise return false.  An aligned element of a word's size is
 * replaced in one step, so the program may use its own atomic instructions on it at the same time. */
static bool replace(unsigned char *target, const void *was, const void *now, size_t size)
{
    uint64_t was8, now8;
    uint32_t was4, now4;
    if (size == 8 && (uintptr_t)target % 8 == 0) {
        memcpy(&was8, was, 8);
        memcpy(&now8, now, 8);
        return __atomic_compare_exchange_n((uint64_t *)target, &was8, now8, false, __ATOMIC_SEQ_CST, __ATOMIC_SEQ_CST);
    }
    if (size == 4 && (uintptr_t)target % 4 == 0) {
        memcpy(&was4, was, 4);
        memcpy(&now4, now, 4);
        return __atomic_compare_exchange_n((uint32_t *)target, &was4, now4, false, __ATOMIC_SEQ_CST, __ATOMIC_SEQ_CST);
    }
    memcpy(target, now, size);
    return true;
}

/* The operations that all types have; the arguments add those of one type. */
#define DEFINE(name, T, ...) \
    static void name(uint8_t op, unsigned char *target, size_t n, const unsigned char *operand, \
                     const unsigned char *compare, unsigned char *result) \
    { \
        for (size_t at = 0; at < n * sizeof(T); at += sizeof(T)) { \
            T d, s = 0, c = 0; \
            unsigned char was[sizeof(T)]; \
            if (operand) \
                memcpy(&s, operand + at, sizeof s); \
            if (compare) \
                memcpy(&c, compare + at, sizeof c); \
            do { \
                memcpy(was, target + at, sizeof was); \
                memcpy(&d, was, sizeof d); \
                switch (op) { \
                    __VA_ARGS__ \
                case FI_LOR: d = d != 0 || s != 0; break; \
                case FI_LAND: d = d != 0 && s != 0; break; \
                case FI_LXOR: d = (d != 0) != (s != 0); break; \
                case FI_ATOMIC_WRITE: d = s; break; \
                case FI_CSWAP: d = c == d ? s : d; break; \
                case FI_CSWAP_NE: d = c != d ? s : d; break; \
                default: /* FI_ATOMIC_READ */ break; \
                } \
            } while (op != FI_ATOMIC_READ && !replace(target + at, was, &d, sizeof d)); \
            if (result) \
                memcpy(result + at, was, sizeof was); \
        } \
    }

#define CASE(op, value) \
    case op: \
        d = value; \
        break;
#define ORDERED \
    CASE(FI_MIN, s < d ? s : d) \
    CASE(FI_MAX, s > d ? s : d) \
    CASE(FI_CSWAP_LE, c <= d ? s : d) \
    CASE(FI_CSWAP_LT, c < d ? s : d) \
    CASE(FI_CSWAP_GE, c >= d ? s : d) \
    CASE(FI_CSWAP_GT, c > d ? s : d)
#define ARITHMETIC \
    CASE(FI_SUM, d + s) \
    CASE(FI_PROD, d *s)
/* Overflow wraps around. */
#define BITS(T) \
    CASE(FI_SUM, (T)((uint64_t)d + (uint64_t)s)) \
    CASE(FI_PROD, (T)((uint64_t)d * (uint64_t)s)) \
    CASE(FI_BOR, (T)(d | s)) \
    CASE(FI_BAND, (T)(d & s)) \
    CASE(FI_BXOR, (T)(d ^ s)) \
    CASE(FI_MSWAP, (T)((s & c) | (d & ~c)))
#define INTEGER(name, T) DEFINE(name, T, ORDERED BITS(T))
#define REAL(name, T) DEFINE(name, T, ORDERED ARITHMETIC)
#define COMPLEX(name, T) DEFINE(name, T, ARITHMETIC)

INTEGER(int8, int8_t)
INTEGER(uint8, uint8_t)
INTEGER(int16, int16_t)
INTEGER(uint16, uint16_t)
INTEGER(int32, int32_t)
INTEGER(uint32, uint32_t)
INTEGER(int64, int64_t)
INTEGER(uint64, uint64_t)
REAL(real32, float)
REAL(real64, double)
REAL(real_long, long double)
COMPLEX(complex32, float complex)
COMPLEX(complex64, double complex)
COMPLEX(complex_long, long double complex)

/* ---- Queries ------------------------------------------------------------------------------------------------------ */

#define BIT(op) (UINT32_C(1) << (op))
#define ALL_CAN \
    (BIT(FI_SUM) | BIT(FI_PROD) | BIT(FI_LOR) | BIT(FI_LAND) | BIT(FI_LXOR) | BIT(FI_ATOMIC_READ) | BIT(FI_ATOMIC_WRITE) | \
     BIT(FI_CSWAP) | BIT(FI_CSWAP_NE))
#define REALS_CAN \
    (ALL_CAN | BIT(FI_MIN) | BIT(FI_MAX) | BIT(FI_CSWAP_LE) | BIT(FI_CSWAP_LT) | BIT(FI_CSWAP_GE) | BIT(FI_CSWAP_GT))
#define INTEGERS_CAN (REALS_CAN | BIT(FI_BOR) | BIT(FI_BAND) | BIT(FI_BXOR) | BIT(FI_MSWAP))

static const struct {
    size_t size;
    uint32_t ops;
    void (*operate)(uint8_t op, unsigned char *target, size_t n, const unsigned char *operand, const unsigned char *compare,
                    unsigned char *result);
} types[] = {[FI_INT8] = {1, INTEGERS_CAN, int8},
             [FI_UINT8] = {1, INTEGERS_CAN, uint8},
             [FI_INT16] = {2, INTEGERS_CAN, int16},
             [FI_UINT16] = {2, INTEGERS_CAN, uint16},
             [FI_INT32] = {4, INTEGERS_CAN, int32},
             [FI_UINT32] = {4, INTEGERS_CAN, uint32},
             [FI_INT64] = {8, INTEGERS_CAN, int64},
             [FI_UINT64] = {8, INTEGERS_CAN, uint64},
             [FI_FLOAT] = {sizeof(float), REALS_CAN, real32},
             [FI_DOUBLE] = {sizeof(double), REALS_CAN, real64},
             [FI_FLOAT_COMPLEX] = {sizeof(float complex), ALL_CAN, complex32},
             [FI_DOUBLE_COMPLEX] = {sizeof(double complex), ALL_CAN, complex64},
             [FI_LONG_DOUBLE] = {sizeof(long double), REALS_CAN, real_long},
             [FI_LONG_DOUBLE_COMPLEX] = {sizeof(long double complex), ALL_CAN, complex_long}};
#define N_TYPES (sizeof types / sizeof *types)

/* Return the operations that calls of this kind may name. */
static uint32_t ops_of(mad_dev_access_t access)
{
    const uint32_t compares = BIT(FI_CSWAP) | BIT(FI_CSWAP_NE) | BIT(FI_CSWAP_LE) | BIT(FI_CSWAP_LT) | BIT(FI_CSWAP_GE) |
                              BIT(FI_CSWAP_GT) | BIT(FI_MSWAP);
    return access == MAD_DEV_COMPARE ? compares : ~compares & ~(access == MAD_DEV_ATOMIC ? BIT(FI_ATOMIC_READ) : 0);
}

size_t mad_ofi_atomic_size(mad_dev_access_t access, unsigned type, unsigned op)
{
    if (type >= N_TYPES || op > FI_MSWAP)
        return 0;
    return types[type].ops & ops_of(access) & BIT(op) ? types[type].size : 0;
}

bool mad_ofi_atomic_good(mad_dev_access_t access, uint8_t type, uint8_t op, size_t len, bool operand)
{
    size_t size = mad_ofi_atomic_size(access, type, op);
    return size && len % size == 0 && (operand || op == FI_ATOMIC_READ || !len);
}

void mad_ofi_atomic_operate(uint8_t type, uint8_t op, void *target, size_t len, const void *operand, const void *compare,
                            void *result)
{
    types[type].operate(op, target, len / types[type].size, operand, compare, result);
}
