/* What is due next: a heap of moments, the earliest first. */
#pragma once
#include "net.h"

struct due {
    uint64_t moment_ns;
    size_t place; /* in the heap, counted from 1; 0: not in it */
    void *owner;
};

struct agenda {
    struct due **heap;
    size_t count, room;
};

static inline void put_at(struct agenda *agenda, size_t place, struct due *due)
{
    agenda->heap[place] = due;
    due->place = place;
}

/* Moves up, then down, until its neighbours are in order. */
static inline void settle(struct agenda *agenda, size_t place, struct due *due)
{
    struct due **heap = agenda->heap;
    for (; place > 1 && heap[place / 2]->moment_ns > due->moment_ns; place /= 2)
        put_at(agenda, place, heap[place / 2]);
    for (;;) {
        size_t child = place * 2;
        if (child < agenda->count && heap[child + 1]->moment_ns < heap[child]->moment_ns)
            child++;
        if (child > agenda->count || heap[child]->moment_ns >= due->moment_ns)
            break;
        put_at(agenda, place, heap[child]);
        place = child;
    }
    put_at(agenda, place, due);
}

static inline void schedule(struct agenda *agenda, struct due *due)
{
    if (agenda->count + 2 > agenda->room) {
        agenda->room = agenda->room ? agenda->room * 2 : 1024;
        agenda->heap = realloc(agenda->heap, agenda->room * sizeof *agenda->heap);
        if (!agenda->heap)
            die("realloc");
    }
    agenda->count++;
    put_at(agenda, agenda->count, due);
    settle(agenda, agenda->count, due);
}

static inline void unschedule(struct agenda *agenda, struct due *due)
{
    if (!due->place)
        return;
    size_t place = due->place;
    struct due *last = agenda->heap[agenda->count--];
    due->place = 0;
    if (last != due)
        settle(agenda, place, last);
}

static inline struct due *earliest(const struct agenda *agenda)
{
    return agenda->count ? agenda->heap[1] : NULL;
}
