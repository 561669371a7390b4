/* The few fields of a request that the engine looks at, found without parsing the rest. */
#pragma once
#include <stdlib.h>
#include <string.h>
#include <strings.h>

/* Where the key's value begins; the bytes end with a zero. */
static inline const char *value_of(const char *body, size_t size, const char *key)
{
    const char *at = memmem(body, size, key, strlen(key));
    if (!at)
        return "";
    return at + strlen(key) + strspn(at + strlen(key), " :");
}

static inline long number_of(const char *body, size_t size, const char *key, long otherwise)
{
    const char *value = value_of(body, size, key);
    return *value >= '0' && *value <= '9' ? strtol(value, NULL, 10) : otherwise;
}

static inline size_t body_size(const char *head, const char *head_end)
{
    static const char name[] = "\ncontent-length:";
    for (const char *line = head; (line = memchr(line, '\n', (size_t)(head_end - line))); line++)
        if (!strncasecmp(line, name, sizeof name - 1))
            return strtoul(line + sizeof name - 1, NULL, 10);
    return 0;
}
