/* SPDX-License-Identifier: BSD-3-Clause */
#include <madeleine/status.h>

const char *mad_status_text(mad_status_t status)
{
    switch (status) {
#define X(name, value, text) \
    case MAD_##name: return text;
        MAD_STATUS_LIST(X)
#undef X
    }
    return "unknown status";
}

const char *mad_status_name(mad_status_t status)
{
    switch (status) {
#define X(name, value, text) \
    case MAD_##name: return "MAD_" #name;
        MAD_STATUS_LIST(X)
#undef X
    }
    return "MAD_ERR_UNKNOWN";
}
