/* What a load client has counted, and its result as one JSON object. Durations are in microseconds there. */
#pragma once
#include "histogram.h"
#include "net.h"

struct tally {
    uint64_t completed, chunks, connects, backlog;
    uint64_t not_200, lost, cut_short;
    struct histogram latency, first_chunk, gap, delay;
    char first_error[256];
};

/* Keeps the first error with what was read then, in a form that needs no escapes. */
static inline void keep_error(struct tally *tally, const char *what, const char *bytes, size_t count)
{
    char *text = tally->first_error;
    if (*text)
        return;
    snprintf(text, sizeof tally->first_error, "%s %.*s", what, (int)count, bytes);
    for (; *text; text++)
        if (*text < ' ' || *text > '~' || *text == '"' || *text == '\\')
            *text = ' ';
}

static inline void print_tally(const struct tally *tally, double seconds)
{
    typedef unsigned long long number;
    printf("{\"seconds\": %.3f, \"completed\": %llu, \"per_s\": %.1f, \"chunks\": %llu, \"chunks_per_s\": %.1f, ", seconds,
           (number)tally->completed, (double)tally->completed / seconds, (number)tally->chunks,
           (double)tally->chunks / seconds);
    print_histogram("latency_us", &tally->latency);
    print_histogram("first_chunk_us", &tally->first_chunk);
    print_histogram("gap_us", &tally->gap);
    print_histogram("delay_us", &tally->delay);
    printf("\"connects\": %llu, \"backlog\": %llu, \"errors\": {\"status\": %llu, \"lost\": %llu, \"short\": %llu}, "
           "\"first_error\": \"%s\"}\n",
           (number)tally->connects, (number)tally->backlog, (number)tally->not_200, (number)tally->lost,
           (number)tally->cut_short, tally->first_error);
}
