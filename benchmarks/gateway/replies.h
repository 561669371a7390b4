/* The engine's answers in OpenAI's format, written once and sent as they are. */
#pragma once
#include "net.h"

#define REPLY_ROOM 2048
#define MODEL "fake-model"
#define CREATED 1764400000
#define START "{\"id\":\"fake-1\",\"object\":\"%s\",\"created\":%d,\"model\":\"" MODEL "\",\"choices\":["

static char fixed_reply[2][REPLY_ROOM]; /* [0] text, [1] chat */
static char content_chunk[2][REPLY_ROOM / 4]; /* with a blank stamp */

static const char opening[] = "HTTP/1.1 200 OK\r\ncontent-type: text/event-stream; charset=utf-8\r\n"
                              "cache-control: no-cache\r\ntransfer-encoding: chunked\r\n\r\n";
static const char models[] = "{\"object\":\"list\",\"data\":[{\"id\":\"" MODEL "\",\"object\":\"model\","
                             "\"created\":1764400000,\"owned_by\":\"bench\",\"max_model_len\":131072}]}";
static const char healthy[] = "{\"status\":\"ok\",\"served_model_name\":\"" MODEL "\",\"is_generation\":true}";

static inline void write_replies(void)
{
    static const char text[] = "A fixed answer, about as long as a short real one and the same each time, so that "
                               "nothing but the way through the gateway makes a difference between two requests.";
    static const char *const whole[] = {"text_completion", "chat.completion"};
    static const char *const piece[] = {"text_completion", "chat.completion.chunk"};
    static const char *const said[] = {"\"text\":\"%s\"", "\"message\":{\"role\":\"assistant\",\"content\":\"%s\"}"};
    static const char *const added[] = {"\"text\":\"%c%0*d \"", "\"delta\":{\"content\":\"%c%0*d \"}"};
    for (int chat = 0; chat < 2; chat++) {
        char json[REPLY_ROOM / 2], event[REPLY_ROOM / 4 - 32], content[256];
        snprintf(content, sizeof content, said[chat], text);
        int size = snprintf(json, sizeof json,
                            START "{\"index\":0,%s,\"finish_reason\":\"stop\"}],\"usage\":{\"prompt_tokens\":200,"
                                  "\"completion_tokens\":40,\"total_tokens\":240}}",
                            whole[chat], CREATED, content);
        snprintf(fixed_reply[chat], REPLY_ROOM,
                 "HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: %d\r\n\r\n%s", size, json);
        snprintf(content, sizeof content, added[chat], STAMP_MARK, STAMP_DIGITS, 0);
        size = snprintf(event, sizeof event, "data: " START "{\"index\":0,%s,\"finish_reason\":null}]}\n\n", piece[chat],
                        CREATED, content);
        snprintf(content_chunk[chat], sizeof content_chunk[chat], "%x\r\n%s\r\n", size, event);
    }
}

/* The chunk with the current time in it. */
static inline const char *stamped_chunk(bool chat)
{
    char *chunk = content_chunk[chat], *digit = strchr(chunk, STAMP_MARK) + STAMP_DIGITS;
    uint64_t now = now_ns();
    for (int i = 0; i < STAMP_DIGITS; i++, now /= 10)
        *digit-- = (char)('0' + now % 10);
    return chunk;
}

/* The end of a stream: the finish reason, the usage when it was asked for, and the end of the response. */
static inline int last_chunk(char *message, size_t room, bool chat, long chunks, bool usage)
{
    char body[REPLY_ROOM / 2], counts[REPLY_ROOM / 4] = "";
    const char *kind = chat ? "chat.completion.chunk" : "text_completion";
    if (usage)
        snprintf(counts, sizeof counts,
                 "data: " START "],\"usage\":{\"prompt_tokens\":200,\"completion_tokens\":%ld,\"total_tokens\":%ld}}\n\n",
                 kind, CREATED, chunks, 200 + chunks);
    int size = snprintf(body, sizeof body,
                        "data: " START "{\"index\":0,%s,\"finish_reason\":\"stop\"}]}\n\n%sdata: [DONE]\n\n", kind, CREATED,
                        chat ? "\"delta\":{}" : "\"text\":\"\"", counts);
    return snprintf(message, room, "%x\r\n%s\r\n0\r\n\r\n", size, body);
}

static inline int json_reply(char *message, size_t room, const char *status, const char *json)
{
    return snprintf(message, room, "HTTP/1.1 %s\r\ncontent-type: application/json\r\ncontent-length: %zu\r\n\r\n%s", status,
                    strlen(json), json);
}
