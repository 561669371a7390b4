/* What the engine and the load client share: the clock, sockets that do not wait, and epoll. */
#pragma once
#include <arpa/inet.h>
#include <errno.h>
#include <netinet/tcp.h>
#include <signal.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/epoll.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#define NS_PER_S 1000000000ull
/* Marks the send time in a chunk: this character, then so many digits of CLOCK_MONOTONIC in nanoseconds. */
#define STAMP_MARK '@'
#define STAMP_DIGITS 19

static inline uint64_t now_ns(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (uint64_t)t.tv_sec * NS_PER_S + (uint64_t)t.tv_nsec;
}

_Noreturn static inline void die(const char *what)
{
    perror(what);
    exit(1);
}

/* Ends with the program that started it, and may open as many sockets as the system allows. */
static inline void start_process(void)
{
    struct rlimit files;
    prctl(PR_SET_PDEATHSIG, SIGTERM);
    signal(SIGPIPE, SIG_IGN);
    if (getrlimit(RLIMIT_NOFILE, &files) == 0) {
        files.rlim_cur = files.rlim_max;
        setrlimit(RLIMIT_NOFILE, &files);
    }
}

static inline struct sockaddr_in loopback(int port)
{
    return (struct sockaddr_in){
        .sin_family = AF_INET, .sin_port = htons((uint16_t)port), .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
}

/* Small writes must leave at once: a delayed one would be measured as 40 ms of latency. */
static inline void send_at_once(int fd)
{
    int on = 1;
    setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
}

static inline int open_socket(void)
{
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
    if (fd < 0)
        die("socket");
    send_at_once(fd);
    return fd;
}

static inline int listen_on(int port)
{
    int fd = open_socket(), on = 1;
    struct sockaddr_in address = loopback(port);
    setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);
    if (bind(fd, (struct sockaddr *)&address, sizeof address) || listen(fd, 4096))
        die("listen");
    return fd;
}

static inline void watch(int epoll, int operation, int fd, uint32_t events, void *owner)
{
    struct epoll_event event = {.events = events, .data.ptr = owner};
    if (epoll_ctl(epoll, operation, fd, &event))
        die("epoll_ctl");
}

/* Waits for events until a moment of the monotonic clock, to the nanosecond. */
static inline int wait_until(int epoll, struct epoll_event *events, int room, uint64_t moment)
{
    uint64_t now = now_ns(), pause = moment > now ? moment - now : 0;
    struct timespec span = {.tv_sec = (time_t)(pause / NS_PER_S), .tv_nsec = (long)(pause % NS_PER_S)};
    int count = epoll_pwait2(epoll, events, room, &span, NULL);
    return count < 0 ? 0 : count;
}
