/* SPDX-License-Identifier: BSD-3-Clause */
/* Names of endpoints (mpi/ofi/name.c): which networks fit into 48 bytes, whether a name gives its address back, and what
 * happens to bytes that are not a name. */
#define TEST_MAIN
#include "harness/test.h"
#include "mpi/ofi/ofi.h"

#include <arpa/inet.h>

#define HEAD 32 /* bytes of the header of an address (doc/wire.md) */

static size_t name_len = 48;
struct fi_provider mad_ofi_provider = {.name = "mad"};

size_t mad_ofi_name_len(void)
{
    return name_len;
}

/* ---- Addresses ---- */

static unsigned char address[2048];
static size_t address_len;

static void put(const void *bytes, size_t len)
{
    address[address_len++] = (unsigned char)len;
    memcpy(address + address_len, bytes, len);
    address_len += len;
}

static void entry(const char *driver, const char *network, const void *bytes, size_t len)
{
    put(driver, strlen(driver));
    put(network, strlen(network));
    put(bytes, len);
}

/* Begin an address, with the entry of self, which every process has. */
static void begin(void)
{
    memset(address, 0, HEAD);
    address[0] = 2;
    for (int i = 0; i < 16; i++)
        address[4 + i] = (unsigned char)(200 + i);
    memset(address + 28, 0xff, 4);
    address_len = HEAD;
    entry("self", "self", "", 0);
}

/* Add an entry of shm.  near: its socket is named after the process's identity. */
static void shm(bool near)
{
    entry("shm", "0123456789abcdef", near ? address + 4 : (const unsigned char *)"otherone", 8);
}

static void ipv4(const char *ip, int prefix)
{
    unsigned char bytes[8] = {4, 0x34, 0x12};
    inet_pton(AF_INET, ip, bytes + 3);
    bytes[7] = (unsigned char)prefix;
    entry("tcp", "", bytes, 8);
}

static void ipv6(const char *ip, int prefix)
{
    unsigned char bytes[20] = {6, 0x34, 0x12};
    inet_pton(AF_INET6, ip, bytes + 3);
    bytes[19] = (unsigned char)prefix;
    entry("tcp", "", bytes, 20);
}

static void end(void)
{
    address[2] = (unsigned char)address_len;
    address[3] = (unsigned char)(address_len >> 8);
}

/* True if the name of `address` gives this address back, except its last `without` bytes. */
static bool comes_back(size_t without)
{
    unsigned char name[MAD_OFI_NAME_MAX], back[MAD_OFI_ADDRESS_MAX];
    size_t len, want = address_len - without;
    end();
    if (!CHECK(mad_ofi_name_make(address, address_len, name, name_len)))
        return false;
    len = mad_ofi_name_address(name, name_len, back);
    if (!CHECK_EQ(len, want))
        return false;
    return back[0] == 2 && !memcmp(back + 4, address + 4, 16) && !memcmp(back + HEAD, address + HEAD, want - HEAD);
}

static void fits(void)
{
    begin();
    shm(true);
    ipv4("10.1.2.3", 16);
    ipv4("10.2.2.3", 0);
    ipv4("192.168.7.5", 32);
    CHECK(comes_back(0));
    begin();
    shm(true);
    ipv6("fd00:1:2::3", 64);
    CHECK(comes_back(0));
    begin();
    shm(false);
    ipv4("10.1.2.3", 24);
    ipv4("10.2.2.3", 24);
    CHECK(comes_back(0));
    begin();
    ipv6("fd00:1:2::3", 128);
    CHECK(comes_back(0));
    begin();
    ipv6("fd00:1:2::3", 0);
    CHECK(comes_back(0));
    begin();
    entry("fault", "shm:0123456789abcdef", "abcdefgh", 8);
    CHECK(comes_back(0));
    begin();
    entry("tcp", "ours", "\4\x34\x12\x0a\1\2\3", 7); /* an interface name that the user has given */
    CHECK(comes_back(0));
    begin();
    entry("tcp", "lo@0123456789abcdef", "\4\x34\x12\x7f\0\0\1", 7);
    CHECK(comes_back(0));
}

/* Every driver has a place in a name, also one that comes from outside. */
static void every_driver(void)
{
    static const char *const drivers[] = {"ofi", "ucx", "verbs", "eth", "mpi", "datagram", "outside"};
    unsigned char bytes[100];
    memset(bytes, 'b', sizeof bytes);
    name_len = 255;
    for (size_t i = 0; i < sizeof drivers / sizeof *drivers; i++) {
        begin();
        shm(true);
        entry(drivers[i], "network", bytes, sizeof bytes);
        entry(drivers[i], "other", bytes, 3);
        CHECK(comes_back(0));
    }
    name_len = 64; /* the room of Open MPI */
    begin();
    entry("ofi", "shm:0123abcd.effffff9", "1234567:0:0", 11);
    CHECK(comes_back(0));
    name_len = 48;
}

/* Networks that do not fit are left out: first IPv6 and the loopback, then the last of the others. */
static void left_out(void)
{
    size_t before;
    begin();
    shm(true);
    ipv4("10.1.2.3", 16);
    ipv4("10.2.2.3", 24);
    ipv4("10.3.2.3", 24);
    before = address_len;
    ipv4("10.4.2.3", 24);
    ipv6("fd00:1:2::3", 64);
    CHECK(comes_back(address_len - before));
    name_len = 255;
    CHECK(comes_back(0));
    name_len = 48;
}

static void reaches_none(void)
{
    unsigned char name[48];
    char network[100];
    memset(network, 'x', sizeof network - 1);
    network[sizeof network - 1] = 0;
    begin();
    entry("tcp", network, "\4\x34\x12\x0a\1\2\3", 7);
    end();
    CHECK(!mad_ofi_name_make(address, address_len, name, sizeof name));
    begin(); /* a process without networks has a name, too */
    end();
    CHECK(mad_ofi_name_make(address, address_len, name, sizeof name));
}

/* Names of random bytes are refused, or give an address within its bounds. */
static void garbage(void)
{
    unsigned char name[48], back[MAD_OFI_ADDRESS_MAX];
    unsigned seed = 1;
    for (int i = 0; i < 200000; i++) {
        for (size_t k = 0; k < sizeof name; k++)
            name[k] = (unsigned char)((seed = seed * 1103515245 + 12345) >> 16);
        if (i % 8)
            name[0] = 2;
        if (i % 3)
            name[17] = (unsigned char)(i % 24);
        CHECK(mad_ofi_name_address(name, sizeof name, back) <= MAD_OFI_ADDRESS_MAX);
    }
    memset(name, 0, sizeof name);
    CHECK(mad_ofi_name_is_any(name) && !mad_ofi_name_address(name, sizeof name, back));
    name[47] = 1;
    CHECK(!mad_ofi_name_is_any(name));
}

int main(void)
{
    static const struct {
        const char *name;
        void (*run)(void);
    } cases[] = {{"what fits", fits},
                 {"every driver", every_driver},
                 {"left out", left_out},
                 {"reaches none", reaches_none},
                 {"garbage", garbage}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        int before = test_failures;
        test_begin(cases[i].name, 60);
        cases[i].run();
        printf("%s %s\n", test_failures == before ? "ok" : "not ok", cases[i].name);
    }
    test_end();
    return test_failures != 0;
}
