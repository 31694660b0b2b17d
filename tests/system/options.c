/* SPDX-License-Identifier: BSD-3-Clause */
/* Knobs that the program sets, and the versions of the libraries: options program|environment|marcel|version. */
#define TEST_MAIN
#include "harness/test.h"

#include <errno.h>
#include <madeleine.h>
#include <marcel.h>

/* True if the driver's adapter is the only one of the session. */
static bool only_adapter(mad_session_t *s, const char *driver)
{
    mad_adapter_info_t info;
    return mad_adapter_count(s) == 1 && !mad_adapter_get(s, 0, &info) && !strcmp(info.driver, driver);
}

static void check_workers(int n)
{
    CHECK_EQ(marcel_init(), 0);
    CHECK_EQ(marcel_worker_count(), n);
    CHECK_EQ(marcel_option_set("MAD_WORKERS", "1"), EBUSY);
    CHECK_EQ(marcel_fini(), 0);
}

static void session_takes_what_the_program_sets(void)
{
    mad_session_t *s = NULL;
    CHECK_STATUS(mad_option_set(NULL, "1"), MAD_ERR_INVAL);
    CHECK_STATUS(mad_option_set("MAD_DRIVER", "self"), MAD_ERR_INVAL);
    CHECK_STATUS(mad_option_set("MAD_EXIT_TIMEOUT", "soon"), MAD_ERR_CONFIG);
    CHECK_OK(mad_option_set("MAD_DRIVERS", "no-such-driver"));
    CHECK_OK(mad_option_set("MAD_DRIVERS", "self"));
    CHECK_OK(mad_option_set("MAD_PREFER", "no-such-driver"));
    CHECK_OK(mad_option_set("MAD_PREFER", NULL));
    CHECK_OK(mad_option_set("MAD_WORKERS", "2"));
    CHECK(getenv("MAD_DRIVERS") == NULL);
    if (!CHECK_OK(mad_init(NULL, NULL, &s)))
        return;
    CHECK(only_adapter(s, "self"));
    CHECK_STATUS(mad_option_set("MAD_DRIVERS", "tcp"), MAD_ERR_BUSY);
    check_workers(2);
    mad_exit(s);
    CHECK_STATUS(mad_option_set("MAD_DRIVERS", "tcp"), MAD_ERR_BUSY);
}

/* MAD_DRIVERS=self and MAD_WORKERS=3 are in the environment. */
static void environment_wins_over_the_program(void)
{
    mad_session_t *s = NULL;
    CHECK_OK(mad_option_set("MAD_DRIVERS", "no-such-driver"));
    CHECK_OK(mad_option_set("MAD_WORKERS", "2"));
    if (!CHECK_OK(mad_init(NULL, NULL, &s)))
        return;
    CHECK(only_adapter(s, "self"));
    check_workers(3);
    mad_exit(s);
}

static void marcel_takes_what_the_program_sets(void)
{
    CHECK_EQ(marcel_option_set(NULL, "2"), EINVAL);
    CHECK_EQ(marcel_option_set("MAD_WORKER", "2"), EINVAL);
    CHECK_EQ(marcel_option_set("MAD_WORKERS", "many"), EINVAL);
    CHECK_EQ(marcel_option_set("MAD_WORKERS", "2"), 0);
    CHECK_EQ(marcel_option_set("MAD_DRIVERS", "tcp"), 0); /* an option of libmadeleine, which libmarcel accepts */
    check_workers(2);
    CHECK_STATUS(mad_option_set("MAD_WORKERS", "1"), MAD_ERR_BUSY);
}

static void versions_print(void)
{
    int v[3] = {-1, -1, -1};
    mad_version(NULL, NULL, NULL);
    mad_version(&v[0], &v[1], &v[2]);
    CHECK(v[0] == MAD_VERSION_MAJOR && v[1] == MAD_VERSION_MINOR && v[2] == MAD_VERSION_PATCH);
    printf("madeleine %d.%d.%d\n", v[0], v[1], v[2]);
    marcel_version(NULL, NULL, NULL);
    marcel_version(&v[0], &v[1], &v[2]);
    CHECK(v[0] == MARCEL_VERSION_MAJOR && v[1] == MARCEL_VERSION_MINOR && v[2] == MARCEL_VERSION_PATCH);
    printf("marcel %d.%d.%d\n", v[0], v[1], v[2]);
}

int main(int argc, char **argv)
{
    const char *what = argc > 1 ? argv[1] : "";
    if (!strcmp(what, "program"))
        session_takes_what_the_program_sets();
    else if (!strcmp(what, "environment"))
        environment_wins_over_the_program();
    else if (!strcmp(what, "marcel"))
        marcel_takes_what_the_program_sets();
    else if (!strcmp(what, "version"))
        versions_print();
    else
        return 2;
    return test_failures ? 1 : 0;
}
