// A line with a delay and a cap: TCP connections to 127.0.0.1:LISTEN go on to 127.0.0.1:TARGET.
//
// proxy LISTEN TARGET DELAY_US BYTES_PER_S COUNT
//
// Every byte arrives DELAY_US after it was sent, in both directions; what comes from the target
// shares BYTES_PER_S over all connections. A block is sent when both allow it. The file COUNT holds
// the bytes that came from the target so far, as a number of 8 bytes.

#include <arpa/inet.h>
#include <fcntl.h>
#include <netinet/tcp.h>
#include <pthread.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#define BLOCK (64 << 10)
#define BLOCKS 128

struct way {
    int from, to, capped;
    size_t head, tail;  // blocks that were read, and written
    size_t size[BLOCKS];
    uint64_t due[BLOCKS];
    char *data;
    pthread_mutex_t lock;
    pthread_cond_t changed;
};

static uint64_t delay_ns, free_at, *count_of_bytes;
static double ns_per_byte;
static pthread_mutex_t line = PTHREAD_MUTEX_INITIALIZER;

static uint64_t now(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (uint64_t)t.tv_sec * 1000000000ull + (uint64_t)t.tv_nsec;
}

static void wait_until(uint64_t at) {
    struct timespec t = {(time_t)(at / 1000000000ull), (long)(at % 1000000000ull)};
    clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &t, NULL);
}

// The time at which the last byte of a block has left, if it leaves as early as the line allows.
static uint64_t sent_at(size_t size) {
    pthread_mutex_lock(&line);
    uint64_t at = now();
    if (free_at < at) free_at = at;
    free_at += (uint64_t)((double)size * ns_per_byte);
    *count_of_bytes += size;
    at = free_at;
    pthread_mutex_unlock(&line);
    return at;
}

static void *reader(void *argument) {
    struct way *way = argument;
    for (;;) {
        pthread_mutex_lock(&way->lock);
        while (way->head - way->tail == BLOCKS) pthread_cond_wait(&way->changed, &way->lock);
        size_t place = way->head % BLOCKS;
        pthread_mutex_unlock(&way->lock);
        ssize_t size = read(way->from, way->data + place * BLOCK, BLOCK);
        uint64_t at = size > 0 && way->capped ? sent_at((size_t)size) : now();
        pthread_mutex_lock(&way->lock);
        way->size[place] = size > 0 ? (size_t)size : 0;
        way->due[place] = at + delay_ns;
        way->head++;
        pthread_cond_broadcast(&way->changed);
        pthread_mutex_unlock(&way->lock);
        if (size <= 0) return NULL;
    }
}

static void *writer(void *argument) {
    struct way *way = argument;
    for (;;) {
        pthread_mutex_lock(&way->lock);
        while (way->head == way->tail) pthread_cond_wait(&way->changed, &way->lock);
        size_t place = way->tail % BLOCKS;
        pthread_mutex_unlock(&way->lock);
        wait_until(way->due[place]);
        size_t size = way->size[place], done = 0;
        while (done < size) {
            ssize_t count = write(way->to, way->data + place * BLOCK + done, size - done);
            if (count <= 0) break;
            done += (size_t)count;
        }
        if (!size || done < size) {
            shutdown(way->to, SHUT_WR);
            shutdown(way->from, SHUT_RD);
            return NULL;
        }
        pthread_mutex_lock(&way->lock);
        way->tail++;
        pthread_cond_broadcast(&way->changed);
        pthread_mutex_unlock(&way->lock);
    }
}

static void start(int from, int to, int capped) {
    struct way *way = calloc(1, sizeof *way);  // a connection's memory stays: few are made
    way->from = from, way->to = to, way->capped = capped;
    way->data = malloc((size_t)BLOCK * BLOCKS);
    pthread_mutex_init(&way->lock, NULL);
    pthread_cond_init(&way->changed, NULL);
    pthread_t thread;
    pthread_create(&thread, NULL, reader, way);
    pthread_detach(thread);
    pthread_create(&thread, NULL, writer, way);
    pthread_detach(thread);
}

static struct sockaddr_in address(const char *port) {
    struct sockaddr_in found = {0};
    found.sin_family = AF_INET;
    found.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    found.sin_port = htons((uint16_t)atoi(port));
    return found;
}

int main(int count, char **arguments) {
    if (count != 6) return fprintf(stderr, "proxy LISTEN TARGET DELAY_US BYTES_PER_S COUNT\n"), 2;
    signal(SIGPIPE, SIG_IGN);
    delay_ns = (uint64_t)atoll(arguments[3]) * 1000u;
    ns_per_byte = 1e9 / atof(arguments[4]);
    int counted = open(arguments[5], O_RDWR | O_CREAT | O_TRUNC, 0600);
    if (counted < 0 || ftruncate(counted, sizeof *count_of_bytes)) return perror(arguments[5]), 1;
    count_of_bytes = mmap(NULL, sizeof *count_of_bytes, PROT_WRITE, MAP_SHARED, counted, 0);
    if (count_of_bytes == MAP_FAILED) return perror(arguments[5]), 1;
    int one = 1, listening = socket(AF_INET, SOCK_STREAM, 0);
    struct sockaddr_in mine = address(arguments[1]), target = address(arguments[2]);
    setsockopt(listening, SOL_SOCKET, SO_REUSEADDR, &one, sizeof one);
    if (bind(listening, (struct sockaddr *)&mine, sizeof mine) || listen(listening, 256))
        return perror("proxy"), 1;
    for (;;) {
        int client = accept(listening, NULL, NULL);
        if (client < 0) continue;
        int server = socket(AF_INET, SOCK_STREAM, 0);
        if (connect(server, (struct sockaddr *)&target, sizeof target)) {
            close(client), close(server);
            continue;
        }
        setsockopt(client, IPPROTO_TCP, TCP_NODELAY, &one, sizeof one);
        setsockopt(server, IPPROTO_TCP, TCP_NODELAY, &one, sizeof one);
        start(client, server, 0);
        start(server, client, 1);
    }
}
