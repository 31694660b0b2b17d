/* SPDX-License-Identifier: BSD-3-Clause */
/* A program with a session and a locale: locale_client LOCALE.  The program prints "ready", and ends with its input.  Exit
 * status 77: there is no such locale. */
#include <locale.h>
#include <madeleine.h>
#include <stdio.h>

int main(int argc, char **argv)
{
    mad_session_t *session;
    mad_channel_t *channel;
    if (argc < 2 || !setlocale(LC_ALL, argv[1]))
        return 77;
    if (mad_init(&argc, &argv, &session) != MAD_OK || mad_channel_open(session, "channel", &channel) != MAD_OK)
        return 1;
    printf("ready, %.1f\n", 1.5);
    fflush(stdout);
    while (getchar() != EOF)
        ;
    mad_exit(session);
    return 0;
}
