/* SPDX-License-Identifier: Apache-2.0 */
/* The settings of the ICD, read once at the first call. */
#include "icd/icd_int.h"
#include "icd/session/shared_memory.h"

#include <limits.h>

#include "base/compiler.h"
#include "base/config/config.h"
#include "base/config/settings.h"
#include "base/os/spin.h"
#include "base/prefix.h"
#include "base/trace/log.h"

static const char *const platform_names[] = {"telpher", "native", NULL};

#define FIELD(member) .offset = offsetof(struct tp_icd_settings, member)

static const struct tp_config_entry entries[] = {
    {.name = "SERVERS",
     .default_text = "",
     .help =
         "servers whose devices are shown: [tls://]host[:port], unix:/path or local, "
         "with commas between; empty shows no platform",
     .parser = &tp_config_string,
     FIELD(servers)},
    {.name = "CONNECT_TIMEOUT",
     .default_text = "1.5s",
     .help = "how long discovery waits for servers, all at once; those that are late "
             "are left out",
     .parser = &tp_config_duration,
     FIELD(connect_timeout_ns),
     .min = 1000000,
     .max = 600000000000},
    {.name = "COOKIE",
     .default_text = "",
     .help = "file with the cookie for servers on loopback TCP; empty looks in the "
             "default places",
     .parser = &tp_config_string,
     FIELD(cookie)},
    {.name = "TLS_PSK",
     .default_text = "",
     .help =
         "file with the shared key for servers that want TLS, a copy of the server's; "
         "empty = ~/.telpher/key or /etc/telpher/key",
     .parser = &tp_config_string,
     FIELD(tls_psk)},
    {.name = "TLS_CA",
     .default_text = "",
     .help = "certificates of the authorities that sign servers' certificates (PEM)",
     .parser = &tp_config_string,
     FIELD(tls_ca)},
    {.name = "TLS_CERT",
     .default_text = "",
     .help = "certificate that this client shows, and its chain (PEM)",
     .parser = &tp_config_string,
     FIELD(tls_cert)},
    {.name = "TLS_KEY",
     .default_text = "",
     .help = "private key of that certificate (PEM, mode 0600)",
     .parser = &tp_config_string,
     FIELD(tls_key)},
    {.name = "INSECURE",
     .default_text = "no",
     .help = "reach servers off loopback without TLS: for closed test networks",
     .parser = &tp_config_bool,
     FIELD(insecure)},
    {.name = "PLATFORM_NAME",
     .default_text = "telpher",
     .help = "what the platform calls itself: telpher, or native for the name and "
             "vendor of the first server's driver",
     .parser = &tp_config_choice,
     .choices = platform_names,
     FIELD(platform_name)},
    {.name = "SHARED_MEMORY",
     .default_text = "yes",
     .help =
         "content goes through shared memory where the server is reached by its Unix "
         "socket",
     .parser = &tp_config_bool,
     FIELD(shared_memory)},
    {.name = "SHARED_MEMORY_SIZE",
     .default_text = "16M",
     .help = "size of that memory, from 256K to 16M: content for which it has no room "
             "goes through the socket",
     .parser = &tp_config_size,
     FIELD(shared_memory_size),
     .min = TP_ICD_SLOT_BYTES,
     .max = (int64_t)TP_ICD_SLOTS * TP_ICD_SLOT_BYTES},
    {.name = "SPIN",
     .default_text = "auto",
     .help =
         "how long a call that waits looks for its answer before it sleeps, at most "
         "10ms: auto = 50us with at least 4 processors, else 0",
     .parser = &tp_config_spin,
     FIELD(spin_ns)},
};

/** Settings of the programs beside us: in the environment they are no mistake. */
#define FOREIGN(text)                                                                  \
    {                                                                                  \
        .name = (text), .default_text = "", .help = "see telpherd",                    \
        .parser = &tp_config_string                                                    \
    }

static const struct tp_config_entry foreign[] = {
    FOREIGN("LISTEN"),
    FOREIGN("SOCKET"),
    FOREIGN("GROUP"),
    FOREIGN("DEVICE"),
    FOREIGN("EXECUTOR"),
    FOREIGN("KERNEL_TIMEOUT"),
    FOREIGN("BUILD_TIMEOUT"),
    FOREIGN("TRANSFER_TIMEOUT"),
    FOREIGN("PROBE_TIMEOUT"),
    FOREIGN("PREFACE_TIMEOUT"),
    FOREIGN("STALL_TIMEOUT"),
    FOREIGN("MAX_SESSIONS"),
    FOREIGN("MAX_USER_SESSIONS"),
    FOREIGN("MAX_HALF_OPEN"),
    FOREIGN("MAX_OBJECTS"),
    FOREIGN("MAX_CONTEXTS"),
    FOREIGN("MAX_QUEUES"),
    FOREIGN("MAX_BUFFERS"),
    FOREIGN("MAX_PROGRAMS"),
    FOREIGN("MAX_KERNELS"),
    FOREIGN("MAX_MEMORY"),
    FOREIGN("MAX_HOST_MEMORY"),
    FOREIGN("MAX_PROGRAM"),
    FOREIGN("MAX_UNREAD"),
    FOREIGN("CACHE"),
    FOREIGN("CACHE_SIZE"),
    FOREIGN("HANDSHAKE_TIMEOUT"),
    FOREIGN("MAX_HANDSHAKES"),
    FOREIGN("BENCH"),
    FOREIGN("ICD"),
};

struct tp_icd_settings tp_icd_settings;

static void
report(telpher_status status, const struct tp_error *err)
{
    if (status != TELPHER_OK) {
        tp_warn("icd", "%s", tp_error_text(err));
    }
}

void
tp_icd_settings_load(void)
{
    static struct tp_settings base;
    static struct tp_config *config; /* kept: the values are its own */
    const struct tp_config_room rooms[] = {
        {"base", tp_settings_entries, tp_settings_entry_count, &base},
        {"icd", entries, TP_ARRAY_LEN(entries), &tp_icd_settings},
        {"telpherd", foreign, TP_ARRAY_LEN(foreign), NULL},
    };
    struct tp_error err = {0};
    char file[PATH_MAX];
    telpher_status status;

    if (tp_config_create(rooms, TP_ARRAY_LEN(rooms), &config) != TELPHER_OK) {
        return;
    }
    status = tp_prefix_own_settings_file("telpher/telpher.conf", file, sizeof(file));
    report(tp_settings_load(config, status == TELPHER_OK ? file : NULL, &err), &err);
    tp_icd_settings.security =
        (struct tp_client_security){.files = {.ca = tp_icd_settings.tls_ca,
                                              .cert = tp_icd_settings.tls_cert,
                                              .key = tp_icd_settings.tls_key,
                                              .psk = tp_icd_settings.tls_psk},
                                    .insecure = tp_icd_settings.insecure};
    err = (struct tp_error){0};
    report(tp_settings_apply(&base, &err), &err);
    tp_icd_settings.spin_ns = tp_spin_time(tp_icd_settings.spin_ns, 0);
}
