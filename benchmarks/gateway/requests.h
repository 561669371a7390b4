/* The requests that a load client sends: one JSON body a line of a file, taken in turn. */
#pragma once
#include "net.h"

struct request {
    char *bytes;
    size_t size;
};

struct requests {
    struct request *all;
    size_t count, next;
};

static inline void read_requests(struct requests *requests, const char *file_name, const char *path, int port)
{
    enum { HEAD_ROOM = 512 };
    FILE *file = fopen(file_name, "r");
    char *line = NULL;
    size_t room = 0;
    ssize_t size;
    if (!file)
        die(file_name);
    while ((size = getline(&line, &room, file)) > 0) {
        size -= line[size - 1] == '\n';
        requests->all = realloc(requests->all, (requests->count + 1) * sizeof *requests->all);
        struct request *request = &requests->all[requests->count++];
        request->bytes = malloc((size_t)size + HEAD_ROOM);
        int head = snprintf(request->bytes, HEAD_ROOM,
                            "POST %s HTTP/1.1\r\nhost: 127.0.0.1:%d\r\ncontent-type: application/json\r\n"
                            "content-length: %zd\r\n\r\n",
                            path, port, size);
        memcpy(request->bytes + head, line, (size_t)size);
        request->size = (size_t)(head + size);
    }
    free(line);
    fclose(file);
}

static inline const struct request *take_request(struct requests *requests)
{
    const struct request *request = &requests->all[requests->next];
    requests->next = (requests->next + 1) % requests->count;
    return request;
}
