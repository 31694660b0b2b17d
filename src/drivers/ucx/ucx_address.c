/* SPDX-License-Identifier: BSD-3-Clause */
#include "drivers/ucx/ucx_address.h"

#include <math.h>
#include <string.h>

#define VERSION_MASK 15 /* of the first byte */
#define VERSION_1 0
#define VERSION_2 1
#define HEADER_NAME 1 /* flags of the header */
#define HEADER_IDENTITY 2
#define HEADER_CLIENT 4
#define DEVICE_EMPTY 0x80 /* bit of a memory domain's byte: the device has no transports */
#define DOMAIN_MASK 0x7f
#define DOMAINS_MAX 64       /* length of UCX's arrays of memory domains */
#define LENGTH_LAST 0x80     /* of the bytes of lengths */
#define LENGTH_ENDPOINT 0x40 /* bit: addresses of endpoints follow; the address of a worker has none */
#define LENGTH_PATHS 0x40
#define LENGTH_PLACE 0x20
#define DEVICE_LENGTH_MASK 0x1f
#define INTERFACE_LENGTH_MASK 0x3f
#define NO_DEVICE 0xff
#define ATTRIBUTES_1 16 /* bytes: three numbers of type float, then flags */
#define ATTRIBUTES_2 8
#define MESSAGES_1 13   /* offset of the flag that the transport carries messages, in format 1 */
#define MESSAGES_2 4    /* offset of the length of the longest message (2 bytes), in format 2 */
#define NOT_A_NUMBER 15 /* exponent in format 2 */
#define SEGMENT_FLAGS 7 /* offset of the flags that say how to find the segment, in an address of memory */
#define RELEASE_MASK 15 /* bits of the byte of an empty last device: minor version of UCX's release, from 16 on */
#define RELEASE_OLD 3   /* releases 16 to 18 put two flags into the byte of a memory domain */

typedef struct reader {
    const unsigned char *at, *end;
    bool short_of; /* bytes were missing */
    int version;
} reader_t;

static unsigned byte_read(reader_t *r)
{
    if (r->at < r->end)
        return *r->at++;
    r->short_of = true;
    return 0;
}

static const unsigned char *bytes_skip(reader_t *r, size_t n)
{
    const unsigned char *from = r->at;
    if ((size_t)(r->end - r->at) < n) {
        r->short_of = true;
        n = (size_t)(r->end - r->at);
    }
    r->at += n;
    return from;
}

/* Return the number that begins with the byte `first`.  In version 2 a further byte may follow. */
static unsigned number_extend(reader_t *r, unsigned first, unsigned mask)
{
    unsigned value = first & mask;
    return r->version == VERSION_2 && value == mask ? byte_read(r) : value;
}

static void header_skip(reader_t *r)
{
    unsigned first = byte_read(r), flags = r->version == VERSION_1 ? first >> 4 : byte_read(r);
    if (r->version == VERSION_1 || (flags & HEADER_IDENTITY))
        bytes_skip(r, sizeof(uint64_t));
    if (flags & HEADER_CLIENT)
        bytes_skip(r, sizeof(uint64_t));
    if (flags & HEADER_NAME)
        bytes_skip(r, byte_read(r));
}

/* True if these attributes of a transport are safe for UCX to compute with. */
static bool attributes_check(const reader_t *r, const unsigned char *bytes)
{
    float number[3];             /* time of a message, bandwidth, latency */
    if (r->version == VERSION_2) /* numbers of one byte, whose low half is the exponent */
        return (bytes[0] & NOT_A_NUMBER) != NOT_A_NUMBER && (bytes[1] & NOT_A_NUMBER) != NOT_A_NUMBER &&
               (bytes[2] & NOT_A_NUMBER) != NOT_A_NUMBER;
    memcpy(number, bytes, sizeof number);
    return isfinite(number[0]) && isfinite(number[1]) && isfinite(number[2]) && number[0] >= 0 && number[1] != 0 &&
           number[2] >= 0;
}

/* True if a transport with these attributes carries messages. */
static bool messages_carried(const reader_t *r, const unsigned char *bytes)
{
    return r->version == VERSION_1 ? bytes[MESSAGES_1] & 1 : bytes[MESSAGES_2] || bytes[MESSAGES_2 + 1];
}

/* Read the transports of a device.  Return false if UCX must not parse them. */
static bool transports_read(reader_t *r, bool has_device, ucx_shape_t *shape)
{
    unsigned length = 0;
    while (!(length & LENGTH_LAST)) {
        size_t attributes = r->version == VERSION_1 ? ATTRIBUTES_1 : ATTRIBUTES_2;
        const unsigned char *name = bytes_skip(r, sizeof(uint16_t)), *bytes = bytes_skip(r, attributes);
        if (r->short_of || shape->n == UCX_TRANSPORTS_MAX || !attributes_check(r, bytes))
            return false;
        length = byte_read(r);
        unsigned n = number_extend(r, length, INTERFACE_LENGTH_MASK);
        const unsigned char *interface = bytes_skip(r, n);
        if (r->short_of || (length & LENGTH_ENDPOINT))
            return false;
        memcpy(&shape->transport[shape->n].name, name, sizeof(uint16_t));
        shape->transport[shape->n].has_messages = messages_carried(r, bytes);
        shape->transport[shape->n].has_device = has_device;
        shape->transport[shape->n].has_interface = n > 0;
        shape->transport[shape->n++].segment = n > SEGMENT_FLAGS ? interface[SEGMENT_FLAGS] : 0;
    }
    return true;
}

/* Read the devices.  *domain_max: the highest number of a memory domain; *release: minor version of UCX; -1 if the address
 * has none. */
static bool devices_read(reader_t *r, ucx_shape_t *shape, unsigned *domain_max, int *release)
{
    unsigned length = 0;
    while (!(length & LENGTH_LAST)) {
        unsigned first = byte_read(r), domain = number_extend(r, first, DOMAIN_MASK);
        length = byte_read(r);
        unsigned n = number_extend(r, length, DEVICE_LENGTH_MASK);
        if ((length & LENGTH_PATHS) && !byte_read(r))
            return false;
        if (length & LENGTH_PLACE)
            byte_read(r);
        bytes_skip(r, n);
        if (r->short_of)
            return false;
        if (first & DEVICE_EMPTY) {
            *release = length & LENGTH_LAST ? (int)(domain & RELEASE_MASK) : -1;
            continue;
        }
        *domain_max = domain > *domain_max ? domain : *domain_max;
        if (!transports_read(r, n > 0, shape))
            return false;
    }
    return true;
}

bool ucx_address_read(const unsigned char *address, size_t len, ucx_shape_t *shape)
{
    reader_t r = {.at = address, .end = address + len, .version = len ? *address & VERSION_MASK : -1};
    unsigned domain_max = 0;
    int release = -1;
    *shape = (ucx_shape_t){.version = r.version};
    if (r.version != VERSION_1 && r.version != VERSION_2)
        return false;
    header_skip(&r);
    if (r.short_of || r.at == r.end || *r.at == NO_DEVICE)
        return false;
    bool read = devices_read(&r, shape, &domain_max, &release);
    bool old = r.version == VERSION_1 && release < RELEASE_OLD;
    if (!read || (!old && domain_max >= DOMAINS_MAX))
        shape->n = 0;
    return shape->n > 0;
}

/* True if the address has what UCX expects of each transport that this process has, too. */
static bool shape_fits(const ucx_shape_t *own, const ucx_shape_t *shape)
{
    for (int i = 0; i < shape->n; i++)
        for (int j = 0; j < own->n; j++)
            if (shape->transport[i].name == own->transport[j].name &&
                (shape->transport[i].has_device < own->transport[j].has_device ||
                 shape->transport[i].has_interface < own->transport[j].has_interface ||
                 (shape->version == VERSION_2 && shape->transport[i].has_messages < own->transport[j].has_messages) ||
                 (own->memory && shape->transport[i].segment != own->transport[j].segment)))
                return false;
    return true;
}

bool ucx_address_check(const ucx_shape_t *own, const unsigned char *address, size_t len)
{
    ucx_shape_t shape;
    bool read = ucx_address_read(address, len, &shape);
    if (own->n)
        return read && shape_fits(own, &shape);
    return shape.version == VERSION_1 || shape.version == VERSION_2 || (shape.version >= 0 && shape.version == own->version);
}
