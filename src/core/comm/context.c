/* SPDX-License-Identifier: Apache-2.0 */
/* Create and destroy a context: its transports, memory and peers. */
#include <errno.h>
#include <sched.h>
#include <stdio.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/config/settings.h"
#include "base/os/descriptor.h"
#include "base/os/random.h"
#include "base/params.h"
#include "base/trace/log.h"
#include "core/comm/comm_int.h"
#include "core/comm/last_error.h"
#include "core/comm/settings.h"

#define SPIN TP_CLOCK_MS /* time to poll before a wait sleeps */
/* time to poll before drain() polls at intervals of LEAVE_NAP */
#define LEAVE_SPIN TP_CLOCK_MS
#define LEAVE_NAP TP_CLOCK_MS

enum {
    SCRATCH_BYTES = 16 << 10,
};

/* ---- create ---- */

static bool
is_wanted(const struct tp_config_list *wanted, const char *name)
{
    if (wanted->count == 0 || strcmp(name, "loop") == 0) {
        return true;
    }
    for (size_t i = 0; i < wanted->count; i++) {
        if (strcmp(wanted->items[i], name) == 0) {
            return true;
        }
    }
    return false;
}

static const struct tp_net_ops *
find_ops(const char *name)
{
    for (size_t i = 0; tp_builtin_nets[i] != NULL; i++) {
        if (strcmp(tp_builtin_nets[i]->name, name) == 0) {
            return tp_builtin_nets[i];
        }
    }
    return NULL;
}

static telpher_status
add_net(telpher_context *ctx, const struct tp_net_ops *ops,
        const struct tp_net_params *common, bool must, struct tp_error *err)
{
    struct tp_comm_link *link = &ctx->nets[ctx->net_count];
    struct tp_net_params params = *common;
    telpher_status status;

    params.user = link;
    if (ctx->net_count == TP_COMM_NETS) {
        return tp_error_set(err, TELPHER_ERR_LIMIT,
                            "transport %s is one too many: a context has at most %d; "
                            "shorten TELPHER_TRANSPORTS",
                            ops->name, TP_COMM_NETS);
    }
    status = tp_rndv_create(ops, &params, &link->net, err);
    if (status == TELPHER_ERR_UNSUPPORTED && !must) {
        tp_info("comm", "transport %s cannot be used: %s", ops->name,
                tp_error_text(err));
        return TELPHER_OK;
    }
    if (status == TELPHER_OK) {
        link->ctx = ctx;
        ctx->net_count++;
        ctx->unused = strcmp(ops->name, "loop") == 0 ? link->net : ctx->unused;
    }
    return status;
}

static telpher_status
add_nets(telpher_context *ctx, const struct tp_config_list *wanted,
         const struct tp_net_params *params, struct tp_error *err)
{
    telpher_status status = TELPHER_OK;

    for (size_t i = 0; i < wanted->count; i++) {
        if (find_ops(wanted->items[i]) == NULL) {
            return tp_error_set(err, TELPHER_ERR_INVALID,
                                "TELPHER_TRANSPORTS: there is no transport \"%s\" here",
                                wanted->items[i]);
        }
    }
    for (size_t i = 0; tp_builtin_nets[i] != NULL && status == TELPHER_OK; i++) {
        const struct tp_net_ops *ops = tp_builtin_nets[i];

        /* transports that the setting names are tried in the order of the names */
        if (wanted->count == 0 || strcmp(ops->name, "loop") == 0) {
            status = is_wanted(wanted, ops->name) && !ops->only_if_named
                         ? add_net(ctx, ops, params, false, err)
                         : TELPHER_OK;
        }
    }
    for (size_t i = 0; i < wanted->count && status == TELPHER_OK; i++) {
        const struct tp_net_ops *ops = find_ops(wanted->items[i]);

        if (strcmp(ops->name, "loop") != 0) {
            status = add_net(ctx, ops, params, true, err);
        }
    }
    return status;
}

/* Distributes a job number that rank 0 chose and no other job has. */
static telpher_status
agree_on_job(struct tp_bootstrap *boot, uint64_t *ret_job, struct tp_error *err)
{
    uint64_t own, *all = tp_alloc_array(boot->size, sizeof(*all), "job numbers");
    telpher_status status =
        all != NULL ? tp_random_bytes(&own, sizeof(own)) : TELPHER_ERR_NO_MEMORY;

    if (status == TELPHER_OK) {
        status = boot->gather(boot, &own, sizeof(own), all, err);
    }
    if (status == TELPHER_OK) {
        *ret_job = all[0];
    }
    tp_free(all);
    return status;
}

static telpher_status
not_gathered(struct tp_error *err)
{
    return tp_error_set(
        err, TELPHER_ERR_PROTO,
        "the bootstrap's allgather returned another value for this rank "
        "than it was given");
}

/* The longest address sets the length of all ranks' addresses. */
static telpher_status
agree_on_length(struct tp_bootstrap *boot, size_t own, size_t *ret_len,
                struct tp_error *err)
{
    uint32_t mine = (uint32_t)own;
    uint32_t *all = tp_alloc_array(boot->size, sizeof(*all), "address lengths");
    telpher_status status = all != NULL
                                ? boot->gather(boot, &mine, sizeof(mine), all, err)
                                : TELPHER_ERR_NO_MEMORY;

    *ret_len = 0;
    for (uint32_t r = 0; status == TELPHER_OK && r < boot->size; r++) {
        *ret_len = TP_MAX(*ret_len, (size_t)all[r]);
    }
    if (status == TELPHER_OK && all[boot->rank] != mine) {
        status = not_gathered(err);
    } else if (status == TELPHER_OK && *ret_len > TP_COMM_ADDRESS_MAX) {
        status =
            tp_error_set(err, TELPHER_ERR_PROTO,
                         "the longest address of a rank has %zu bytes, at most %zu are "
                         "possible: name fewer transports in TELPHER_TRANSPORTS",
                         *ret_len, (size_t)TP_COMM_ADDRESS_MAX);
    }
    tp_free(all);
    return status;
}

static telpher_status
machine_of(uint8_t *ret_machine, struct tp_error *err)
{
    static const char words[] = "the machine's name for this boot cannot be read from "
                                "/proc/sys/kernel/random/boot_id";
    telpher_status status = tp_process_machine(ret_machine);

    if (status == TELPHER_ERR_LIMIT) {
        return tp_error_set_errno(err, errno, "%s", words);
    }
    return status == TELPHER_OK
               ? TELPHER_OK
               : tp_error_set(err, TELPHER_ERR_IO, "%s; is /proc mounted?", words);
}

static telpher_status
gather_addresses(telpher_context *ctx, struct tp_bootstrap *boot, struct tp_error *err)
{
    uint8_t *address = tp_zalloc(TP_COMM_ADDRESS_MAX, "address");
    telpher_status status;
    size_t own;

    if (address == NULL) {
        return TELPHER_ERR_NO_MEMORY;
    }
    status = machine_of(address, err);
    if (status != TELPHER_OK) {
        tp_free(address);
        return status;
    }
    tp_comm_revocation_create(ctx, address + TP_COMM_MACHINE_BYTES);
    own = tp_comm_peer_write_address(ctx, address);
    status = agree_on_length(boot, own, &ctx->address_bytes, err);
    if (status == TELPHER_OK) {
        ctx->addresses = tp_alloc_array(ctx->size, ctx->address_bytes, "addresses");
        status =
            ctx->addresses != NULL
                ? boot->gather(boot, address, ctx->address_bytes, ctx->addresses, err)
                : TELPHER_ERR_NO_MEMORY;
    }
    if (status == TELPHER_OK &&
        memcmp(ctx->addresses + ctx->rank * ctx->address_bytes, address, own) != 0) {
        status = not_gathered(err);
    }
    tp_free(address);
    return status;
}

/* Closes transports that connect this rank to no other, so that progress does not
 * poll them. */
static void
close_unneeded_nets(telpher_context *ctx)
{
    for (size_t i = 0; i < ctx->net_count; i++) {
        struct tp_comm_link *link = &ctx->nets[i];

        if (!link->needed) {
            tp_rndv_destroy(link->net);
            link->net = NULL;
        }
    }
}

static void
note_need(telpher_context *ctx, const struct tp_net *net)
{
    for (size_t i = 0; i < ctx->net_count; i++) {
        ctx->nets[i].needed |= ctx->nets[i].net == net;
    }
}

static telpher_status
check_reach(telpher_context *ctx, struct tp_error *err)
{
    char ours[128], theirs[128];

    for (uint32_t r = 0; r < ctx->size; r++) {
        const struct tp_net *net = tp_comm_peer_choose(ctx, r);

        note_need(ctx, net);
        if (net == NULL) {
            tp_comm_peer_list_nets(ctx, ctx->rank, ours, sizeof(ours));
            tp_comm_peer_list_nets(ctx, r, theirs, sizeof(theirs));
            return tp_error_set(err, TELPHER_ERR_UNREACHABLE,
                                "no transport joins rank %u (%s) and rank %u (%s): do "
                                "all ranks have the same TELPHER_TRANSPORTS?",
                                ctx->rank, ours, r, theirs);
        }
    }
    return TELPHER_OK;
}

static telpher_context *
context_alloc(const struct tp_bootstrap *boot, struct tp_error *err)
{
    telpher_context *ctx = tp_zalloc(sizeof(*ctx), "context");

    (void)tp_error_set(err, TELPHER_ERR_NO_MEMORY,
                       "out of memory for the context of rank %u", boot->rank);
    if (ctx == NULL) {
        return NULL;
    }
    ctx->rank = boot->rank;
    ctx->size = boot->size;
    ctx->spin_ns = SPIN;
    ctx->wake_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    if (ctx->wake_fd < 0) {
        (void)tp_error_set_errno(err, errno, "cannot create an eventfd to wake rank %u",
                                 boot->rank);
    }
    ctx->revocations_fd = -1;
    tp_list_init(&ctx->waiting);
    tp_list_init(&ctx->free);
    tp_list_init(&ctx->completed);
    tp_list_init(&ctx->starved);
    tp_list_init(&ctx->pieces);
    tp_list_init(&ctx->all_pieces);
    tp_list_init(&ctx->blocks);
    tp_list_init(&ctx->spare);
    tp_list_init(&ctx->ready);
    tp_list_init(&ctx->exported);
    tp_list_init(&ctx->unhandled);
    tp_list_init(&ctx->steps);
    tp_map_init(&ctx->channels);
    ctx->peers = tp_alloc_array(ctx->size, sizeof(struct tp_comm_peer *), "peers");
    ctx->handlers =
        tp_alloc_array(TELPHER_HANDLERS, sizeof(*ctx->handlers), "handlers");
    ctx->scratch = tp_malloc(SCRATCH_BYTES, "scratch");
    if (ctx->peers == NULL || ctx->handlers == NULL || ctx->scratch == NULL ||
        ctx->wake_fd < 0) {
        telpher_context_destroy(ctx);
        return NULL;
    }
    tp_error_init(err);
    return ctx;
}

static telpher_status
join(const struct tp_comm_settings *s, const struct tp_config_list *transports,
     const struct tp_mems_settings *mems, struct tp_bootstrap *boot,
     telpher_context *ctx, struct tp_error *err)
{
    struct tp_net_params net = {.rank = ctx->rank,
                                .size = ctx->size,
                                .events = &tp_comm_events,
                                .lost_after = s->lost_ns,
                                .copies = !s->shm_cma,
                                .two_sided = boot->two_sided};
    struct tp_mems_params memory = {.settings = mems};
    telpher_status status = agree_on_job(boot, &net.job, err);

    ctx->job = net.job;
    ctx->leave_ns = s->leave_ns;
    ctx->kept_max = s->kept_max;
    ctx->direct = s->direct;
    ctx->direct_min = s->direct_min;
    ctx->net_direct_min = s->net_direct_min;
    ctx->export_chunks = s->export_chunks;
    if (status != TELPHER_OK) {
        return status; /* the caller destroys the context, here and below */
    }
    status = add_nets(ctx, transports, &net, err);
    if (status != TELPHER_OK) {
        return status;
    }
    status = gather_addresses(ctx, boot, err);
    if (status != TELPHER_OK) {
        return status;
    }
    status = check_reach(ctx, err);
    if (status != TELPHER_OK) {
        return status;
    }
    close_unneeded_nets(ctx);
    tp_comm_peers_count_local(ctx);
    ctx->crowded = ctx->local_size > sysconf(_SC_NPROCESSORS_ONLN);
    memory.local_rank = ctx->local_rank;
    memory.local_size = ctx->local_size;
    return tp_mems_create(&memory, &ctx->mems, err);
}

static telpher_status
create(const telpher_context_params *params, const struct tp_comm_settings *s,
       const struct tp_mems_settings *mems, telpher_context **ret_ctx,
       struct tp_error *err)
{
    struct tp_config_list transports = s->transports;
    struct tp_bootstrap boot;
    telpher_context *ctx = NULL;
    telpher_status status = tp_bootstrap_open(params, s, &boot, err);

    if (status != TELPHER_OK) {
        return status;
    }
    ctx = context_alloc(&boot, err);
    status = ctx != NULL ? join(s, &transports, mems, &boot, ctx, err) : err->code;
    boot.close(&boot);
    if (status != TELPHER_OK) {
        telpher_context_destroy(ctx);
        return status;
    }
    tp_info("comm", "rank %u of %u, %u of %u on this machine", ctx->rank, ctx->size,
            ctx->local_rank, ctx->local_size);
    *ret_ctx = ctx;
    return TELPHER_OK;
}

telpher_status
tp_comm_create(const telpher_context_params *params, telpher_context **ret_ctx,
               struct tp_error *err)
{
    telpher_context_params own = TELPHER_CONTEXT_PARAMS_INIT;
    struct tp_comm_settings s;
    struct tp_mems_settings mems;
    struct tp_config *config;
    struct tp_error words = {0};
    telpher_status status;

    err = err != NULL ? err : &words;
    status = tp_params_copy(&own, sizeof(own), params, sizeof(own),
                            "TELPHER_CONTEXT_PARAMS_INIT", err);
    if (status != TELPHER_OK) {
        return status;
    }
    tp_settings_start();
    status = tp_comm_settings_load(&s, &mems, own.transports, &config, err);
    if (status == TELPHER_OK) {
        status = create(&own, &s, &mems, ret_ctx, err);
        tp_config_destroy(config);
    }
    return status;
}

/* ---- destroy ---- */

/* True while a peer has not received what was sent to it. */
static bool
is_busy(const telpher_context *ctx, uint32_t *ret_peer)
{
    *ret_peer = UINT32_MAX;
    for (size_t i = 0; i < ctx->net_count; i++) {
        struct tp_net *net = ctx->nets[i].net;

        if (net != NULL && tp_rndv_busy(net, ret_peer)) {
            return true;
        }
    }
    return tp_comm_peers_waiting(ctx, ret_peer);
}

static void
say_who_is_late(const telpher_context *ctx, uint32_t peer)
{
    char who[32] = "another rank";

    if (peer != UINT32_MAX) {
        (void)snprintf(who, sizeof(who), "rank %u", peer);
    }
    tp_warn("comm",
            "rank %u leaves with data that %s has not received: "
            "TELPHER_LEAVE_TIMEOUT has expired",
            ctx->rank, who);
}

/* Waits until sent data has arrived, also at ranks that poll rarely. A peer that
 * dies meanwhile ends the wait for it. */
static void
drain(telpher_context *ctx)
{
    tp_ns now = tp_clock_ns(), idle_since = now;
    tp_ns deadline = tp_clock_deadline(ctx->leave_ns);
    uint32_t peer;

    while (is_busy(ctx, &peer)) {
        unsigned count = telpher_progress(ctx);

        now = tp_clock_ns();
        idle_since = count != 0 ? now : idle_since;
        if (now >= deadline) {
            say_who_is_late(ctx, peer);
            return;
        }
        if (now - idle_since > LEAVE_SPIN) {
            tp_clock_sleep(LEAVE_NAP);
        } else if (count == 0) {
            sched_yield();
        }
    }
}

telpher_status
telpher_context_at_end(telpher_context *ctx, void (*fn)(void *user), void *user)
{
    for (size_t i = 0; i < TP_COMM_AT_END; i++) {
        if (ctx->at_end[i].fn == NULL) {
            ctx->at_end[i].fn = fn;
            ctx->at_end[i].user = user;
            return TELPHER_OK;
        }
    }
    return tp_comm_error(ctx, TELPHER_ERR_LIMIT,
                         "a context calls at most %d functions at its end",
                         TP_COMM_AT_END);
}

static void
call_at_end(telpher_context *ctx)
{
    for (size_t i = TP_COMM_AT_END; i-- > 0;) {
        if (ctx->at_end[i].fn != NULL) {
            ctx->at_end[i].fn(ctx->at_end[i].user);
        }
    }
}

/* Copies that complete from here on must not send. */
static void
leave_peers(telpher_context *ctx)
{
    for (uint32_t r = 0; ctx->peers != NULL && r < ctx->size; r++) {
        struct tp_comm_peer *peer = ctx->peers[r];

        tp_comm_revocation_post(ctx, r,
                                peer != NULL && tp_comm_request_is_sending(ctx, peer)
                                    ? TP_COMM_REVOCATION_REVOKED
                                    : TP_COMM_REVOCATION_LEFT);
        if (peer != NULL) {
            peer->status = TELPHER_ERR_PEER_LOST;
        }
    }
}

void
telpher_context_destroy(telpher_context *ctx)
{
    if (ctx == NULL) {
        return;
    }
    if (ctx->mems != NULL && !ctx->running) {
        /* a callback cannot make progress, so it would wait forever */
        drain(ctx);
    }
    leave_peers(ctx);
    while (ctx->net_count > 0) {
        struct tp_net *net = ctx->nets[--ctx->net_count].net;

        if (net != NULL) {
            tp_rndv_destroy(net);
        }
    }
    tp_comm_peers_close(ctx);
    tp_mems_destroy(ctx->mems); /* waits for copies, which use requests */
    tp_comm_gather_fini(ctx);
    if (ctx->peers != NULL) {
        tp_comm_message_fini(ctx);
        tp_comm_channel_fini(ctx);
    }
    tp_comm_fragment_fini(ctx);
    tp_comm_request_fini(ctx);
    tp_comm_peers_fini(ctx);
    tp_comm_revocation_destroy(ctx);
    tp_comm_block_fini(ctx);
    tp_free(ctx->windows);
    tp_message_free_handlers(ctx->handlers);
    tp_free(ctx->scratch);
    tp_free(ctx->addresses);
    call_at_end(ctx);
    tp_descriptor_close(ctx->wake_fd);
    tp_free(ctx);
}

/* ---- queries ---- */

uint32_t
telpher_context_rank(const telpher_context *ctx)
{
    return ctx->rank;
}

uint32_t
telpher_context_size(const telpher_context *ctx)
{
    return ctx->size;
}

uint64_t
telpher_context_job(const telpher_context *ctx)
{
    return ctx->job;
}

uint32_t
telpher_context_local_rank(const telpher_context *ctx)
{
    return ctx->local_rank;
}

uint32_t
telpher_context_local_size(const telpher_context *ctx)
{
    return ctx->local_size;
}

struct tp_mems *
tp_comm_context_mems(telpher_context *ctx)
{
    return ctx->mems;
}
