/* SPDX-License-Identifier: Apache-2.0 */
/* Log-linear histogram: 64 exact buckets, then 32 an octave. */
#include "base/container/hist.h"

#include <string.h>

#include "base/compiler.h"

#define EXACT 64u
#define PER_OCTAVE 32u

static unsigned
bucket_of(uint64_t value)
{
    unsigned top = 63u - (unsigned)__builtin_clzll(value | 1);

    if (value < EXACT) {
        return (unsigned)value;
    }
    return EXACT + (top - 6) * PER_OCTAVE +
           ((unsigned)(value >> (top - 5)) - PER_OCTAVE);
}

/* The middle of a bucket, which stands for all values in it. */
static uint64_t
value_of(unsigned bucket)
{
    unsigned shift;

    if (bucket < EXACT) {
        return bucket;
    }
    shift = (bucket - EXACT) / PER_OCTAVE + 1;
    return ((uint64_t)(PER_OCTAVE + (bucket - EXACT) % PER_OCTAVE) << shift) +
           ((uint64_t)1 << (shift - 1));
}

void
tp_hist_init(struct tp_hist *hist)
{
    memset(hist, 0, sizeof(*hist));
    hist->least = UINT64_MAX;
}

void
tp_hist_record(struct tp_hist *hist, uint64_t value)
{
    hist->count++;
    hist->sum += (double)value;
    hist->least = TP_MIN(hist->least, value);
    hist->greatest = TP_MAX(hist->greatest, value);
    hist->buckets[bucket_of(value)]++;
}

void
tp_hist_merge(struct tp_hist *hist, const struct tp_hist *from)
{
    hist->count += from->count;
    hist->sum += from->sum;
    hist->least = TP_MIN(hist->least, from->least);
    hist->greatest = TP_MAX(hist->greatest, from->greatest);
    for (unsigned i = 0; i < TP_HIST_BUCKETS; i++) {
        hist->buckets[i] += from->buckets[i];
    }
}

uint64_t
tp_hist_count(const struct tp_hist *hist)
{
    return hist->count;
}

uint64_t
tp_hist_min(const struct tp_hist *hist)
{
    return hist->count != 0 ? hist->least : 0;
}

uint64_t
tp_hist_max(const struct tp_hist *hist)
{
    return hist->greatest;
}

double
tp_hist_mean(const struct tp_hist *hist)
{
    return hist->count != 0 ? hist->sum / (double)hist->count : 0;
}

uint64_t
tp_hist_percentile(const struct tp_hist *hist, double percent)
{
    double wanted = (double)hist->count * percent / 100;
    uint64_t seen = 0;

    if (hist->count == 0 || percent <= 0) {
        return tp_hist_min(hist);
    }
    for (unsigned i = 0; i < TP_HIST_BUCKETS; i++) {
        seen += hist->buckets[i];
        if (hist->buckets[i] != 0 && (double)seen >= wanted) {
            return TP_MAX(hist->least, TP_MIN(value_of(i), hist->greatest));
        }
    }
    return hist->greatest;
}
