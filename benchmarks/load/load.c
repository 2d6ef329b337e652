/* Rates of one broker through librdkafka, without the cost of a Python call for each record.
 *
 * load produce BOOTSTRAP TOPIC RECORDS RECORD_BYTES: sends with acks=all and idempotence, waits for every acknowledgement.
 * load consume BOOTSTRAP TOPIC RECORDS: reads partition 0 from its beginning, with checksums checked.
 * Prints the seconds from the second request to the last answer: connecting is not measured. Exit code 1 with a reason.
 *
 * The library is the one of the Python package confluent-kafka, which comes without headers: the few functions of its
 * public, stable interface that are used here are declared by hand, from librdkafka's own documentation.
 */

#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

typedef struct {
    int err;
    void *topic;
    int32_t partition;
    void *payload;
    size_t len;
    void *key;
    size_t key_len;
    int64_t offset;
    void *private_;
} message_t;

extern void *rd_kafka_conf_new(void);
extern int rd_kafka_conf_set(void *conf, const char *name, const char *value, char *error, size_t size);
extern void rd_kafka_conf_set_dr_msg_cb(void *conf, void (*callback)(void *, const message_t *, void *));
extern void *rd_kafka_new(int type, void *conf, char *error, size_t size);
extern void *rd_kafka_topic_new(void *client, const char *topic, void *conf);
extern int rd_kafka_produce(void *topic, int32_t partition, int flags, void *payload, size_t len, const void *key,
                            size_t key_len, void *opaque);
extern int rd_kafka_poll(void *client, int timeout_ms);
extern int rd_kafka_flush(void *client, int timeout_ms);
extern int rd_kafka_consume_start(void *topic, int32_t partition, int64_t offset);
extern ssize_t rd_kafka_consume_batch(void *topic, int32_t partition, int timeout_ms, message_t **messages, size_t count);
extern int rd_kafka_consume_stop(void *topic, int32_t partition);
extern void rd_kafka_message_destroy(message_t *message);
extern const char *rd_kafka_err2str(int error);
extern int rd_kafka_last_error(void);

enum { PRODUCER, CONSUMER };
enum { QUEUE_FULL = -184, BEGINNING = -2, TAKE = 10000, SERVE_EVERY = 1000, TIMEOUT_MS = 60000, POLL_MS = 100 };

static int refused;

static void on_delivery(void *client, const message_t *message, void *opaque) {
    (void)client, (void)opaque;
    if (message->err && !refused)
        refused = message->err;
}

static void fail(const char *what, const char *why) {
    fprintf(stderr, "%s: %s\n", what, why);
    exit(1);
}

static double now_s(void) {
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return now.tv_sec + now.tv_nsec / 1e9;
}

static void set(void *conf, const char *name, const char *value) {
    char error[512];
    if (rd_kafka_conf_set(conf, name, value, error, sizeof error))
        fail(name, error);
}

static void *client_of(int type, void *conf) {
    char error[512];
    void *client = rd_kafka_new(type, conf, error, sizeof error);
    if (!client)
        fail("a client cannot be made", error);
    return client;
}

static void wait_for_all(void *client) {
    if (rd_kafka_flush(client, TIMEOUT_MS))
        fail("produce", "records were not acknowledged within a minute");
    if (refused)
        fail("produce", rd_kafka_err2str(refused));
}

static double produce(const char *bootstrap, const char *name, long records, size_t bytes) {
    void *conf = rd_kafka_conf_new();
    set(conf, "bootstrap.servers", bootstrap);
    set(conf, "acks", "all");
    set(conf, "enable.idempotence", "true");
    set(conf, "linger.ms", "5");
    set(conf, "queue.buffering.max.messages", "1000000");
    set(conf, "delivery.report.only.error", "true");
    rd_kafka_conf_set_dr_msg_cb(conf, on_delivery);
    void *client = client_of(PRODUCER, conf), *topic = rd_kafka_topic_new(client, name, NULL);
    char *value = malloc(bytes);
    for (size_t i = 0; i < bytes; i++)
        value[i] = i % 251;
    if (rd_kafka_produce(topic, 0, 0, value, bytes, NULL, 0, NULL))
        fail("produce", rd_kafka_err2str(rd_kafka_last_error()));
    wait_for_all(client);
    double begin_s = now_s();
    for (long sent = 0; sent < records && !refused;) {
        if (!rd_kafka_produce(topic, 0, 0, value, bytes, NULL, 0, NULL)) {
            if (++sent % SERVE_EVERY == 0)
                rd_kafka_poll(client, 0);
        } else if (rd_kafka_last_error() == QUEUE_FULL) {
            rd_kafka_poll(client, 1);
        } else {
            fail("produce", rd_kafka_err2str(rd_kafka_last_error()));
        }
    }
    wait_for_all(client);
    return now_s() - begin_s;
}

static double consume(const char *bootstrap, const char *name, long records) {
    static message_t *taken[TAKE];
    void *conf = rd_kafka_conf_new();
    set(conf, "bootstrap.servers", bootstrap);
    set(conf, "check.crcs", "true");
    set(conf, "fetch.queue.backoff.ms", "1"); /* else it pauses for a second whenever it is ahead of its reader */
    void *topic = rd_kafka_topic_new(client_of(CONSUMER, conf), name, NULL);
    if (rd_kafka_consume_start(topic, 0, BEGINNING))
        fail("consume", rd_kafka_err2str(rd_kafka_last_error()));
    double begin_s = 0, last_s = now_s();
    for (long received = 0; received < records;) {
        ssize_t count = rd_kafka_consume_batch(topic, 0, POLL_MS, taken, received ? TAKE : 1);
        for (ssize_t i = 0; i < count; i++) {
            if (taken[i]->err)
                fail("consume", rd_kafka_err2str(taken[i]->err));
            rd_kafka_message_destroy(taken[i]);
        }
        if (count > 0) {
            last_s = now_s();
            if (!received)
                begin_s = last_s;
            received += count;
        } else if (now_s() - last_s > TIMEOUT_MS / 1000) {
            fail("consume", "no record came for a minute");
        }
    }
    rd_kafka_consume_stop(topic, 0);
    return last_s - begin_s;
}

int main(int count, char **words) {
    double seconds;
    if (count == 6 && !strcmp(words[1], "produce"))
        seconds = produce(words[2], words[3], atol(words[4]), (size_t)atol(words[5]));
    else if (count == 5 && !strcmp(words[1], "consume"))
        seconds = consume(words[2], words[3], atol(words[4]));
    else
        fail("usage", "load produce BOOTSTRAP TOPIC RECORDS RECORD_BYTES, or load consume BOOTSTRAP TOPIC RECORDS");
    printf("%.6f\n", seconds);
    fflush(stdout);
    _Exit(0); /* what is left of the client ends with the process */
}
