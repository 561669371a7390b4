/* Reads one HTTP/1.1 response in whatever pieces it comes, and hands on the bytes of its body. */
#pragma once
#include <ctype.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

enum part { HEAD, SIZED_BODY, BODY_UNTIL_CLOSE, CHUNK_SIZE, CHUNK_DATA, CHUNK_END, TRAILER, COMPLETE, BROKEN };

struct response {
    enum part part;
    int status;
    bool closes; /* the connection cannot be used again */
    bool streams; /* server-sent events */
    bool in_extension; /* after the ';' of a chunk size */
    uint64_t left; /* bytes of the body or chunk still to come */
    size_t held; /* bytes of the head, or of a trailer's line */
    char head[8192];
};

typedef void body_sink(void *owner, const char *bytes, size_t count);

static inline void response_begin(struct response *r)
{
    memset(r, 0, offsetof(struct response, head));
}

static inline bool names(const char *line, const char *name)
{
    return !strncasecmp(line, name, strlen(name));
}

static inline void read_headers(struct response *r, const char *head_end)
{
    bool chunked = false, sized = false;
    r->status = atoi(r->head + strlen("HTTP/1.1 "));
    for (const char *line = r->head; line < head_end;) {
        const char *next = memchr(line, '\n', (size_t)(head_end - line));
        if (!next)
            break;
        size_t length = (size_t)(next - line);
        if (names(line, "content-length:")) {
            r->left = strtoull(line + strlen("content-length:"), NULL, 10);
            sized = true;
        } else if (names(line, "transfer-encoding:"))
            chunked = memmem(line, length, "chunked", 7);
        else if (names(line, "content-type:"))
            r->streams = memmem(line, length, "event-stream", 12);
        else if (names(line, "connection:"))
            r->closes = memmem(line, length, "close", 5);
        line = next + 1;
    }
    if (chunked) {
        r->part = CHUNK_SIZE;
        r->left = 0;
    } else if (sized)
        r->part = r->left ? SIZED_BODY : COMPLETE;
    else {
        r->part = BODY_UNTIL_CLOSE;
        r->left = UINT64_MAX;
        r->closes = true;
    }
}

/* Bytes that belong to the head; the part changes when it is whole. */
static inline size_t read_head(struct response *r, const char *bytes, size_t count)
{
    size_t before = r->held, room = sizeof r->head - before, take = count < room ? count : room;
    size_t from = before > 3 ? before - 3 : 0;
    memcpy(r->head + before, bytes, take);
    r->held += take;
    const char *blank = memmem(r->head + from, r->held - from, "\r\n\r\n", 4);
    if (!blank) {
        if (take == room)
            r->part = BROKEN;
        return take;
    }
    r->held = 0;
    read_headers(r, blank + 2);
    return (size_t)(blank + 4 - r->head) - before;
}

static inline void read_framing(struct response *r, char c)
{
    if (c == '\r')
        return;
    switch (r->part) {
    case CHUNK_SIZE:
        if (c == '\n') {
            r->part = r->left ? CHUNK_DATA : TRAILER;
            r->in_extension = false;
        } else if (c == ';')
            r->in_extension = true;
        else if (!r->in_extension) {
            if (isxdigit((unsigned char)c))
                r->left = r->left * 16 + (uint64_t)(isdigit((unsigned char)c) ? c - '0' : (c | 32) - 'a' + 10);
            else
                r->part = BROKEN;
        }
        break;
    case CHUNK_END:
        r->part = c == '\n' ? CHUNK_SIZE : BROKEN;
        break;
    default: /* TRAILER: an empty line ends it */
        if (c != '\n')
            r->held++;
        else if (!r->held)
            r->part = COMPLETE;
        else
            r->held = 0;
    }
}

/* Reads until the bytes or the response end; the number of bytes read. */
static inline size_t response_feed(struct response *r, const char *bytes, size_t count, body_sink *sink, void *owner)
{
    size_t at = 0;
    while (at < count && r->part < COMPLETE) {
        if (r->part == HEAD)
            at += read_head(r, bytes + at, count - at);
        else if (r->part == SIZED_BODY || r->part == CHUNK_DATA || r->part == BODY_UNTIL_CLOSE) {
            size_t take = count - at < r->left ? count - at : (size_t)r->left;
            sink(owner, bytes + at, take);
            at += take;
            r->left -= take;
            if (!r->left)
                r->part = r->part == SIZED_BODY ? COMPLETE : CHUNK_END;
        } else
            read_framing(r, bytes[at++]);
    }
    return at;
}
