/* An engine that costs almost nothing, so that a benchmark of what stands before it measures only that.
 *
 *   engine PORT...      one thread; each port is one replica
 *
 * POST .../completions answers at once with a fixed completion, or with server-sent events when the body says
 * "stream": true. Standard fields shape the stream, so every gateway passes them on:
 *   "max_tokens"   chunks of content (100 when absent)
 *   "seed"         microseconds from one chunk to the next (0 when absent: as fast as the client reads)
 * Each chunk is one write and carries its own send time (STAMP_MARK), which gives a client on the same machine the
 * one-way delay of every chunk. GET answers what gateways probe: /health, /v1/models and whatever else. */
#define _GNU_SOURCE
#include "due.h"
#include "fields.h"
#include "replies.h"

enum { EVENTS = 512 };

struct client {
    int fd;
    bool listens;
    char *in; /* requests not yet answered */
    size_t in_used, in_room;
    char out[2 * REPLY_ROOM]; /* what the socket did not take */
    size_t out_used;
    bool streams, chat, reports_usage;
    long chunks_left, chunks;
    uint64_t pace_ns;
    struct due next_chunk;
};

static int epoll;
static struct agenda agenda;

/* The caller of the turn frees it: what called this still looks at fd. */
static void end_client(struct client *client)
{
    unschedule(&agenda, &client->next_chunk);
    close(client->fd);
    client->fd = -1;
}

static void send_bytes(struct client *client, const char *bytes, size_t count)
{
    ssize_t sent = client->out_used ? 0 : send(client->fd, bytes, count, 0);
    if (sent < 0 && errno != EAGAIN) {
        end_client(client);
        return;
    }
    size_t rest = count - (sent > 0 ? (size_t)sent : 0);
    if (!rest)
        return;
    if (!client->out_used)
        watch(epoll, EPOLL_CTL_MOD, client->fd, EPOLLIN | EPOLLOUT, client);
    memcpy(client->out + client->out_used, bytes + count - rest, rest);
    client->out_used += rest;
}

/* Sends the chunks that are due. A client that reads too slowly stops the stream until it has caught up. */
static void advance_stream(struct client *client, uint64_t now)
{
    while (client->fd >= 0 && !client->out_used) {
        if (!client->chunks_left) {
            char message[REPLY_ROOM];
            int size = last_chunk(message, sizeof message, client->chat, client->chunks, client->reports_usage);
            client->streams = false;
            send_bytes(client, message, (size_t)size);
            return;
        }
        if (client->next_chunk.moment_ns > now) {
            schedule(&agenda, &client->next_chunk);
            return;
        }
        client->chunks_left--;
        client->next_chunk.moment_ns += client->pace_ns;
        const char *chunk = stamped_chunk(client->chat);
        send_bytes(client, chunk, strlen(chunk));
    }
}

static void send_json(struct client *client, const char *status, const char *json)
{
    char message[REPLY_ROOM];
    send_bytes(client, message, (size_t)json_reply(message, sizeof message, status, json));
}

static void complete(struct client *client, const char *body, size_t size)
{
    if (*value_of(body, size, "\"stream\"") != 't') {
        send_bytes(client, fixed_reply[client->chat], strlen(fixed_reply[client->chat]));
        return;
    }
    client->streams = true;
    client->reports_usage = *value_of(body, size, "\"include_usage\"") == 't';
    client->chunks = client->chunks_left = number_of(body, size, "\"max_tokens\"", 100);
    client->pace_ns = 1000 * (uint64_t)number_of(body, size, "\"seed\"", 0);
    client->next_chunk.moment_ns = now_ns();
    send_bytes(client, opening, sizeof opening - 1);
    advance_stream(client, client->next_chunk.moment_ns);
}

static void answer(struct client *client, const char *head, size_t head_size, const char *body, size_t size)
{
    const char *path = memchr(head, ' ', head_size);
    const char *end = path ? memchr(path + 1, ' ', head_size - (size_t)(path + 1 - head)) : NULL;
    size_t length = end ? (size_t)(end - path) : 0;
#define ENDS_WITH(text) (length > strlen(text) && !memcmp(end - strlen(text), text, strlen(text)))
    if (head[0] == 'P' && ENDS_WITH("/completions")) {
        client->chat = ENDS_WITH("/chat/completions");
        complete(client, body, size);
    } else if (head[0] == 'G' && ENDS_WITH("/models"))
        send_json(client, "200 OK", models);
    else if (head[0] == 'G' && !ENDS_WITH("/metrics"))
        send_json(client, "200 OK", healthy);
    else
        send_json(client, "404 Not Found", "{\"error\":{\"message\":\"no such page\",\"code\":404}}");
}

/* Answers the whole requests that have come, one after the other. */
static void answer_all(struct client *client)
{
    while (client->fd >= 0 && !client->streams && !client->out_used && client->in_used) {
        const char *blank = memmem(client->in, client->in_used, "\r\n\r\n", 4);
        if (!blank)
            return;
        size_t head = (size_t)(blank + 4 - client->in), body = body_size(client->in, blank + 4);
        if (client->in_used < head + body)
            return;
        answer(client, client->in, head, client->in + head, body);
        client->in_used -= head + body;
        memmove(client->in, client->in + head + body, client->in_used);
    }
}

static void read_requests(struct client *client)
{
    if (client->in_room - client->in_used < 4096) {
        client->in_room = client->in_room ? client->in_room * 2 : 8192;
        client->in = realloc(client->in, client->in_room);
        if (!client->in)
            die("realloc");
    }
    ssize_t count = recv(client->fd, client->in + client->in_used, client->in_room - client->in_used - 1, 0);
    if (count > 0) {
        client->in_used += (size_t)count;
        client->in[client->in_used] = 0; /* ends the search for a value's end */
        answer_all(client);
    } else if (count == 0 || errno != EAGAIN)
        end_client(client);
}

static void write_rest(struct client *client)
{
    ssize_t sent = send(client->fd, client->out, client->out_used, 0);
    if (sent < 0 && errno != EAGAIN)
        end_client(client);
    if (sent <= 0)
        return;
    client->out_used -= (size_t)sent;
    memmove(client->out, client->out + sent, client->out_used);
    if (client->out_used)
        return;
    watch(epoll, EPOLL_CTL_MOD, client->fd, EPOLLIN, client);
    if (client->streams)
        advance_stream(client, now_ns());
    answer_all(client);
}

static void add_client(int fd, bool listens)
{
    struct client *client = calloc(1, sizeof *client);
    if (!client)
        die("calloc");
    client->fd = fd;
    client->listens = listens;
    client->next_chunk.owner = client;
    watch(epoll, EPOLL_CTL_ADD, fd, EPOLLIN, client);
}

static void free_ended(struct client *client)
{
    if (client->fd >= 0)
        return;
    free(client->in);
    free(client);
}

static void take_event(struct client *client, uint32_t events)
{
    int fd;
    if (client->listens) {
        while ((fd = accept4(client->fd, NULL, NULL, SOCK_NONBLOCK | SOCK_CLOEXEC)) >= 0) {
            send_at_once(fd);
            add_client(fd, false);
        }
        return;
    }
    if (events & EPOLLOUT && client->out_used)
        write_rest(client);
    if (client->fd >= 0 && events & (EPOLLIN | EPOLLHUP | EPOLLERR))
        read_requests(client);
    free_ended(client);
}

int main(int argc, char **argv)
{
    struct epoll_event events[EVENTS];
    struct due *due;
    if (argc < 2) {
        fprintf(stderr, "usage: engine PORT...\n");
        return 2;
    }
    start_process();
    write_replies();
    epoll = epoll_create1(EPOLL_CLOEXEC);
    for (int i = 1; i < argc; i++)
        add_client(listen_on(atoi(argv[i])), true);
    puts("ready");
    fflush(stdout);
    for (;;) {
        due = earliest(&agenda);
        int count = wait_until(epoll, events, EVENTS, due ? due->moment_ns : now_ns() + NS_PER_S);
        for (int i = 0; i < count; i++)
            take_event(events[i].data.ptr, events[i].events);
        uint64_t now = now_ns();
        while ((due = earliest(&agenda)) && due->moment_ns <= now) {
            struct client *client = due->owner;
            unschedule(&agenda, due);
            advance_stream(client, now);
            answer_all(client);
            free_ended(client);
        }
    }
}
