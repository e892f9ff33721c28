/* SPDX-License-Identifier: Apache-2.0 */
/* Names and texts of the status codes, and the version: both from one list each. */
#include <telpher/telpher.h>

const char *
telpher_status_name(telpher_status status)
{
    switch (status) {
#define STATUS_NAME(name, value, text)                                                 \
    case value:                                                                        \
        return #name;
        TELPHER_STATUS_MAP(STATUS_NAME)
#undef STATUS_NAME
    default:
        return "TELPHER_ERR_UNKNOWN";
    }
}

const char *
telpher_status_text(telpher_status status)
{
    switch (status) {
#define STATUS_TEXT(name, value, text)                                                 \
    case value:                                                                        \
        return text;
        TELPHER_STATUS_MAP(STATUS_TEXT)
#undef STATUS_TEXT
    default:
        return "unknown status";
    }
}

const char *
telpher_version(void)
{
    return TELPHER_VERSION_STRING;
}
