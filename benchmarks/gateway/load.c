/* A load client for OpenAI-compatible gateways; `load --help` lists its options.
 *
 * Closed loop: --connections requests are open at all times, each followed by the next when it ends.
 * Open loop (--rate): request k is due at k/rate seconds and its latency counts from that moment, sent late or
 * not, so that a gateway that stalls cannot hide it; --connections is the most that may be open.
 *
 * What ends within --seconds after --warm-up is counted. A line {"window": "open"} says when counting starts, so that
 * others can read the CPU clocks of the same span; the last line is the result. */
#define _GNU_SOURCE
#include "options.h"
#include "requests.h"
#include "response.h"
#include "tally.h"

enum { EVENTS = 512, READ_ROOM = 1 << 18, LINE_ROOM = 2048 };
#define RETRY_PAUSE_NS 1000000ull

struct connection {
    int fd;
    bool busy;
    const struct request *request;
    size_t sent;
    struct response response;
    uint64_t due_ns, last_chunk_ns;
    long chunks;
    bool done;
    size_t line_used; /* the start of a line whose end has not come */
    char line[LINE_ROOM];
};

static struct load_options options = {.connections = 1, .seconds = 5, .warm_up = 1, .path = "/v1/chat/completions"};
static struct tally tally;
static struct requests requests;
static struct sockaddr_in address;
static struct connection **idle;
static size_t idle_count;
static int epoll;
static uint64_t start_ns, open_ns, close_ns, now, pause_until_ns, started;

static bool counts(void)
{
    return now >= open_ns && now < close_ns;
}

static void hang_up(struct connection *c)
{
    if (c->fd >= 0)
        close(c->fd);
    c->fd = -1;
}

static void send_request(struct connection *c)
{
    ssize_t count = send(c->fd, c->request->bytes + c->sent, c->request->size - c->sent, 0);
    if (count > 0)
        c->sent += (size_t)count;
}

static void begin(struct connection *c, uint64_t due_ns)
{
    c->busy = true;
    c->request = take_request(&requests);
    c->sent = c->line_used = 0;
    c->chunks = 0;
    c->done = false;
    c->due_ns = c->last_chunk_ns = due_ns;
    response_begin(&c->response);
    started++;
    bool fresh = c->fd < 0;
    if (fresh) {
        c->fd = open_socket();
        tally.connects++;
        if (connect(c->fd, (struct sockaddr *)&address, sizeof address) && errno != EINPROGRESS)
            die("connect");
    } else
        send_request(c);
    bool unsent = c->sent < c->request->size;
    if (fresh || unsent)
        watch(epoll, fresh ? EPOLL_CTL_ADD : EPOLL_CTL_MOD, c->fd, EPOLLIN | (unsent ? EPOLLOUT : 0), c);
}

static void count_ending(struct connection *c, bool whole)
{
    const struct response *r = &c->response;
    if (!whole) {
        tally.lost++;
        keep_error(&tally, "connection lost", "", 0);
    } else if (r->status != 200)
        tally.not_200++;
    else if (r->streams && (!c->done || (options.chunks && c->chunks != options.chunks))) {
        tally.cut_short++;
        keep_error(&tally, "stream cut short", c->line, c->line_used);
    } else {
        tally.completed++;
        record(&tally.latency, now - c->due_ns);
    }
}

static void end(struct connection *c, bool whole)
{
    c->busy = false;
    if (counts())
        count_ending(c, whole);
    if (!whole || c->response.closes)
        hang_up(c);
    if (!whole)
        pause_until_ns = now + RETRY_PAUSE_NS;
    if (whole && options.rate <= 0 && now < close_ns)
        begin(c, now);
    else
        idle[idle_count++] = c;
}

static void read_line(struct connection *c, const char *line, size_t size)
{
    if (size < 6 || memcmp(line, "data:", 5))
        return;
    const char *stamp = memchr(line, STAMP_MARK, size);
    if (!stamp) {
        c->done |= memmem(line, size, "[DONE]", 6) != NULL;
        if (memmem(line, size, "\"error\"", 7))
            keep_error(&tally, "error event", line, size);
        return;
    }
    c->chunks++;
    if (counts()) {
        uint64_t sent_ns = strtoull(stamp + 1, NULL, 10);
        tally.chunks++;
        record(c->chunks == 1 ? &tally.first_chunk : &tally.gap, now - c->last_chunk_ns);
        record(&tally.delay, now > sent_ns ? now - sent_ns : 0);
    }
    c->last_chunk_ns = now;
}

static void read_body(void *owner, const char *bytes, size_t count)
{
    struct connection *c = owner;
    if (c->response.status != 200 && !tally.first_error[0]) {
        char what[32];
        snprintf(what, sizeof what, "status %d", c->response.status);
        keep_error(&tally, what, bytes, count);
    }
    if (!c->response.streams)
        return;
    for (const char *line_end; count; bytes = line_end + 1) {
        line_end = memchr(bytes, '\n', count);
        size_t size = line_end ? (size_t)(line_end - bytes) : count;
        if (line_end && !c->line_used)
            read_line(c, bytes, size);
        else {
            size_t room = LINE_ROOM - c->line_used, take = size < room ? size : room;
            memcpy(c->line + c->line_used, bytes, take);
            c->line_used += take;
            if (!line_end)
                return;
            read_line(c, c->line, c->line_used);
            c->line_used = 0;
        }
        count -= size + 1;
    }
}

static void take_event(struct connection *c, uint32_t events)
{
    static char bytes[READ_ROOM + 1];
    if (events & EPOLLOUT && c->busy) {
        send_request(c);
        if (c->sent == c->request->size)
            watch(epoll, EPOLL_CTL_MOD, c->fd, EPOLLIN, c);
    }
    if (!(events & (EPOLLIN | EPOLLHUP | EPOLLERR)))
        return;
    ssize_t count = recv(c->fd, bytes, READ_ROOM, 0);
    now = now_ns();
    if (count < 0 && errno == EAGAIN)
        return;
    if (!c->busy) /* closed between two requests, which is no error */
        hang_up(c);
    else if (count <= 0)
        end(c, count == 0 && c->response.part == BODY_UNTIL_CLOSE);
    else {
        bytes[count] = 0; /* ends the search for a number's end */
        response_feed(&c->response, bytes, (size_t)count, read_body, c);
        if (c->response.part >= COMPLETE)
            end(c, c->response.part == COMPLETE);
    }
}

static uint64_t due_of(uint64_t k)
{
    return start_ns + (uint64_t)((double)k * 1e9 / options.rate);
}

/* Starts what is due; the moment at which more will be. */
static uint64_t begin_due(void)
{
    if (now < pause_until_ns)
        return pause_until_ns;
    if (options.rate > 0) {
        while (idle_count && due_of(started) <= now)
            begin(idle[--idle_count], due_of(started));
        return idle_count ? due_of(started) : close_ns;
    }
    double share = options.ramp > 0 ? (double)(now - start_ns) / 1e9 / options.ramp : 1;
    size_t wanted = share >= 1 ? (size_t)options.connections : (size_t)(share * options.connections);
    while (idle_count && (size_t)options.connections - idle_count < wanted)
        begin(idle[--idle_count], now);
    if (share >= 1)
        return close_ns;
    return start_ns + (uint64_t)((double)(wanted + 1) * options.ramp * 1e9 / options.connections);
}

static void run(void)
{
    struct epoll_event events[EVENTS];
    bool announced = false;
    for (now = now_ns(); now < close_ns; now = now_ns()) {
        if (!announced && now >= open_ns) {
            puts("{\"window\": \"open\"}");
            fflush(stdout);
            announced = true;
        }
        uint64_t wake = begin_due(), limit = announced ? close_ns : open_ns;
        int count = wait_until(epoll, events, EVENTS, wake < limit ? wake : limit);
        now = now_ns();
        for (int i = 0; i < count; i++)
            take_event(events[i].data.ptr, events[i].events);
    }
    uint64_t due = (uint64_t)((double)(close_ns - start_ns) / 1e9 * options.rate);
    tally.backlog = due > started ? due - started : 0;
}

int main(int argc, char **argv)
{
    read_options(&options, argc, argv);
    start_process();
    read_requests(&requests, options.bodies, options.path, options.port);
    if (!requests.count) {
        fprintf(stderr, "%s holds no request\n", options.bodies);
        return 2;
    }
    address = loopback(options.port);
    epoll = epoll_create1(EPOLL_CLOEXEC);
    struct connection *connections = calloc((size_t)options.connections, sizeof *connections);
    idle = calloc((size_t)options.connections, sizeof(struct connection *));
    if (!connections || !idle)
        die("calloc");
    for (int i = options.connections; i-- > 0; idle[idle_count++] = &connections[i])
        connections[i].fd = -1;
    start_ns = now_ns();
    open_ns = start_ns + (uint64_t)(options.warm_up * 1e9);
    close_ns = open_ns + (uint64_t)(options.seconds * 1e9);
    run();
    print_tally(&tally, options.seconds);
    return 0;
}
