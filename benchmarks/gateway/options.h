/* What the load client is told on its command line. */
#pragma once
#include <getopt.h>
#include <stdio.h>
#include <stdlib.h>

struct load_options {
    int port, connections;
    double seconds, warm_up, rate, ramp;
    long chunks; /* expected of each stream; 0: any number */
    const char *path, *bodies;
};

static const struct option option_names[] = {
    {"port", required_argument, NULL, 'p'},    {"bodies", required_argument, NULL, 'b'},
    {"path", required_argument, NULL, 'u'},    {"connections", required_argument, NULL, 'c'},
    {"rate", required_argument, NULL, 'r'},    {"ramp", required_argument, NULL, 'a'},
    {"warm-up", required_argument, NULL, 'w'}, {"seconds", required_argument, NULL, 's'},
    {"chunks", required_argument, NULL, 'k'},  {NULL, 0, NULL, 0},
};

/* Ends the program with the usage when they make no sense. */
static inline void read_options(struct load_options *options, int argc, char **argv)
{
    int letter;
    while ((letter = getopt_long(argc, argv, "", option_names, NULL)) != -1)
        switch (letter) {
        case 'p': options->port = atoi(optarg); break;
        case 'b': options->bodies = optarg; break;
        case 'u': options->path = optarg; break;
        case 'c': options->connections = atoi(optarg); break;
        case 'r': options->rate = atof(optarg); break;
        case 'a': options->ramp = atof(optarg); break;
        case 'w': options->warm_up = atof(optarg); break;
        case 's': options->seconds = atof(optarg); break;
        case 'k': options->chunks = atol(optarg); break;
        default: options->port = 0; optind = argc;
        }
    if (options->port > 0 && options->bodies && options->connections > 0 && options->seconds > 0)
        return;
    fputs("usage: load --port P --bodies FILE [--path /v1/chat/completions] [--connections 1] [--rate per_s] [--ramp s]\n"
          "            [--warm-up 1] [--seconds 5] [--chunks expected_of_each_stream]\n"
          "FILE holds one JSON request body a line.\n",
          stderr);
    exit(2);
}
