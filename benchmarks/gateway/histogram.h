/* Durations in buckets that are 0.4 % wide, so that a run of any length takes the same memory. */
#pragma once
#include <stdint.h>
#include <stdio.h>

#define FINE_BITS 8
#define FINE (1u << FINE_BITS)
#define OCTAVES 34 /* up to 2^42 ns, more than an hour */

struct histogram {
    uint64_t buckets[OCTAVES * FINE], count, max_ns;
    double sum_ns;
};

static inline unsigned bucket_of(uint64_t ns)
{
    if (ns < FINE)
        return (unsigned)ns;
    unsigned octave = 63u - (unsigned)__builtin_clzll(ns) - FINE_BITS; /* how far to shift the leading bits down */
    unsigned index = (octave + 1) * FINE + (unsigned)(ns >> octave) - FINE;
    return index < OCTAVES * FINE ? index : OCTAVES * FINE - 1;
}

/* The middle of a bucket. */
static inline double bucket_ns(unsigned index)
{
    if (index < FINE)
        return index;
    unsigned octave = index / FINE - 1;
    return ((double)(index % FINE + FINE) + 0.5) * (double)(1ull << octave);
}

static inline void record(struct histogram *h, uint64_t ns)
{
    h->buckets[bucket_of(ns)]++;
    h->count++;
    h->sum_ns += (double)ns;
    if (ns > h->max_ns)
        h->max_ns = ns;
}

static inline double quantile_ns(const struct histogram *h, double share)
{
    uint64_t rank = (uint64_t)(share * (double)(h->count - 1)), seen = 0;
    for (unsigned i = 0; i < OCTAVES * FINE; i++) {
        seen += h->buckets[i];
        if (seen > rank)
            return bucket_ns(i) < (double)h->max_ns ? bucket_ns(i) : (double)h->max_ns;
    }
    return (double)h->max_ns;
}

/* One JSON member; null when nothing was recorded. */
static inline void print_histogram(const char *name, const struct histogram *h)
{
    if (!h->count) {
        printf("\"%s\": null, ", name);
        return;
    }
    printf("\"%s\": {\"count\": %llu, \"mean\": %.2f, \"p50\": %.2f, \"p90\": %.2f, \"p99\": %.2f, \"p999\": %.2f, "
           "\"max\": %.2f}, ",
           name, (unsigned long long)h->count, h->sum_ns / (double)h->count / 1e3, quantile_ns(h, .5) / 1e3,
           quantile_ns(h, .9) / 1e3, quantile_ns(h, .99) / 1e3, quantile_ns(h, .999) / 1e3, (double)h->max_ns / 1e3);
}
