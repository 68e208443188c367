/* The exchange that every face does: point to point and collectives, checked. Runs on any communicator. */
#ifndef EXCHANGE_H
#define EXCHANGE_H

#include "check.h"

/* Byte `i` of the message from `source` to `dest`. */
static unsigned char pattern(int source, int dest, size_t i) {
    return (unsigned char)(31 * (size_t)source + 17 * (size_t)dest + i % 251);
}

static unsigned char *allocate(size_t bytes) {
    unsigned char *memory = (unsigned char *)malloc(bytes + 1);
    if (memory == NULL) {
        fprintf(stderr, "out of memory\n");
        exit(1);
    }
    return memory;
}

/* A ring: each sends to the next and receives from the one before, at once. */
static void ring(tocsin_comm *comm, int rank, int size, size_t bytes, int synchronous) {
    int next = (rank + 1) % size, before = (rank + size - 1) % size;
    unsigned char *out = allocate(bytes), *in = allocate(bytes);
    tocsin_request *requests[2] = {NULL, NULL};
    tocsin_status statuses[2];
    size_t i, wrong = 0;

    for (i = 0; i < bytes; i++) out[i] = pattern(rank, next, i);
    memset(in, 0, bytes);
    OK(tocsin_irecv(comm, in, bytes, before, 7, &requests[0]));
    if (synchronous)
        OK(tocsin_issend(comm, out, bytes, next, 7, &requests[1]));
    else
        OK(tocsin_isend(comm, out, bytes, next, 7, &requests[1]));
    OK(tocsin_waitall(2, requests, statuses));
    CHECK(requests[0] == NULL && requests[1] == NULL);
    CHECK(statuses[0].source == before);
    CHECK(statuses[0].tag == 7);
    CHECK(statuses[0].bytes == bytes);
    CHECK(statuses[0].error == TOCSIN_OK && statuses[1].error == TOCSIN_OK);
    for (i = 0; i < bytes; i++) wrong += in[i] != pattern(before, rank, i);
    CHECK(wrong == 0);

    memset(in, 0, bytes);
    OK(tocsin_sendrecv(comm, out, bytes, next, 8, in, bytes, TOCSIN_ANY_SOURCE, TOCSIN_ANY_TAG, &statuses[0]));
    CHECK(statuses[0].source == before && statuses[0].tag == 8 && statuses[0].bytes == bytes);
    for (i = 0; i < bytes; i++) wrong += in[i] != pattern(before, rank, i);
    CHECK(wrong == 0);

    OK(tocsin_sendrecv_replace(comm, out, bytes, next, 10, before, 10, &statuses[0]));
    CHECK(statuses[0].source == before && statuses[0].tag == 10 && statuses[0].bytes == bytes);
    for (i = 0; i < bytes; i++) wrong += out[i] != pattern(before, rank, i);
    CHECK(wrong == 0);
    free(out);
    free(in);
}

/* A line: who has no neighbour has the null process. */
static void line(tocsin_comm *comm, int rank, int size, size_t bytes) {
    int after = rank + 1 < size ? rank + 1 : TOCSIN_PROC_NULL, before = rank > 0 ? rank - 1 : TOCSIN_PROC_NULL;
    unsigned char *out = allocate(bytes), *in = allocate(bytes);
    tocsin_request *requests[2] = {NULL, NULL};
    tocsin_message *message = NULL;
    tocsin_status status;
    int round, found = 0;
    size_t i, wrong = 0;

    for (i = 0; i < bytes; i++) out[i] = pattern(rank, rank + 1, i);
    for (round = 0; round < 4; round++) {
        memset(in, 0, bytes);
        if (round == 0) OK(tocsin_sendrecv(comm, out, bytes, after, 11, in, bytes, before, 11, &status));
        if (round == 1) {
            OK(tocsin_irecv(comm, in, bytes, before, 11, &requests[0]));
            OK(tocsin_issend(comm, out, bytes, after, 11, &requests[1]));
        }
        if (round == 2) {
            OK(tocsin_recv_init(comm, in, bytes, before, TOCSIN_ANY_TAG, &requests[0]));
            OK(tocsin_send_init(comm, out, bytes, after, 11, &requests[1]));
            OK(tocsin_startall(2, requests));
        }
        if (round == 3) {
            OK(tocsin_isend(comm, out, bytes, after, 11, &requests[1]));
            OK(tocsin_mprobe(comm, before, 11, &message, &status));
            CHECK(status.source == before);
            OK(tocsin_imrecv(&message, in, bytes, &requests[0]));
        }
        if (round > 0) {
            OK(tocsin_wait(&requests[0], &status));
            OK(tocsin_wait(&requests[1], NULL));
        }
        if (round == 2) {
            OK(tocsin_request_free(&requests[0]));
            OK(tocsin_request_free(&requests[1]));
        }
        CHECK(status.source == before && status.error == TOCSIN_OK);
        CHECK(status.tag == (rank > 0 ? 11 : -1) && status.bytes == (rank > 0 ? bytes : 0));
        for (i = 0; i < bytes; i++) wrong += in[i] != (rank > 0 ? pattern(before, rank, i) : 0);
        CHECK(wrong == 0);
    }
    for (i = 0; i < bytes; i++) in[i] = 7;
    OK(tocsin_sendrecv_replace(comm, in, bytes, TOCSIN_PROC_NULL, 12, TOCSIN_PROC_NULL, 12, &status));
    for (i = 0; i < bytes; i++) wrong += in[i] != 7;
    CHECK(wrong == 0 && status.source == TOCSIN_PROC_NULL);
    OK(tocsin_iprobe(comm, TOCSIN_PROC_NULL, TOCSIN_ANY_TAG, &found, &status));
    CHECK(found && status.source == TOCSIN_PROC_NULL && status.tag == -1 && status.bytes == 0);
    FAILS(TOCSIN_ERROR_TAG, tocsin_send(comm, out, bytes, TOCSIN_PROC_NULL, -2));
    FAILS(TOCSIN_ERROR_RANK, tocsin_send(comm, out, bytes, -2, 11));
    FAILS(TOCSIN_ERROR_RANK, tocsin_bcast(comm, out, bytes, TOCSIN_PROC_NULL, NULL));
    free(out);
    free(in);
}

/* The same exchange between buffers of the shared heap; one of the two may be from malloc. */
static void heap_ring(tocsin_comm *comm, int rank, int size, size_t bytes, int both) {
    int next = (rank + 1) % size, before = (rank + size - 1) % size;
    void *out = NULL, *in = NULL;
    size_t i, wrong = 0;

    OK(tocsin_alloc(comm, bytes, &out));
    if (both)
        OK(tocsin_alloc(comm, bytes, &in));
    else
        in = allocate(bytes);
    CHECK(out != NULL && in != NULL && (size_t)out % 4096 == 0);
    for (i = 0; i < bytes; i++) wrong += ((unsigned char *)out)[i] != 0;
    for (i = 0; i < bytes; i++) ((unsigned char *)out)[i] = pattern(rank, next, i);
    OK(tocsin_sendrecv(comm, out, bytes, next, 9, in, bytes, before, 9, NULL));
    for (i = 0; i < bytes; i++) wrong += ((unsigned char *)in)[i] != pattern(before, rank, i);
    CHECK(wrong == 0);
    OK(tocsin_free(&out));
    CHECK(out == NULL);
    OK(tocsin_free(&out));
    if (both)
        OK(tocsin_free(&in));
    else
        free(in);
}

static void wait_for(tocsin_request *request) {
    OK(tocsin_wait(&request, NULL));
    CHECK(request == NULL);
}

static void broadcast(tocsin_comm *comm, int rank, int size, size_t bytes, const char *algorithm) {
    unsigned char *data = allocate(bytes);
    int root;

    for (root = 0; root < size; root++) {
        tocsin_request *request = NULL;
        size_t i, wrong = 0;
        for (i = 0; i < bytes; i++) data[i] = rank == root ? pattern(root, 0, i) : 0;
        OK(tocsin_ibcast(comm, data, bytes, root, algorithm, &request));
        wait_for(request);
        for (i = 0; i < bytes; i++) wrong += data[i] != pattern(root, 0, i);
        CHECK(wrong == 0);
    }
    free(data);
}

static void reduce(tocsin_comm *comm, int rank, int size, size_t count, const char *algorithm) {
    int64_t *data = (int64_t *)allocate(count * sizeof *data), *sum = (int64_t *)allocate(count * sizeof *sum);
    double *real = (double *)allocate(count * sizeof *real);
    tocsin_request *request = NULL;
    size_t i, wrong = 0;
    int64_t n = size;

    for (i = 0; i < count; i++) data[i] = (int64_t)i + rank;
    OK(tocsin_iallreduce(comm, data, sum, count, TOCSIN_INT64, TOCSIN_SUM, algorithm, &request));
    wait_for(request);
    for (i = 0; i < count; i++) wrong += sum[i] != n * (int64_t)i + n * (n - 1) / 2;
    CHECK(wrong == 0);

    /* In place. */
    for (i = 0; i < count; i++) real[i] = (double)rank + 0.5;
    OK(tocsin_iallreduce(comm, NULL, real, count, TOCSIN_DOUBLE, TOCSIN_MAX, algorithm, &request));
    wait_for(request);
    for (i = 0; i < count; i++) wrong += real[i] < size - 0.5 || real[i] > size - 0.5;
    CHECK(wrong == 0);
    free(data);
    free(sum);
    free(real);
}

/* Multiplies 2x2 matrices of unsigned integers: associative, not commutative. */
typedef struct {
    uint32_t m[4];
} matrix;

static void multiply(void *context, const void *left, const void *right, void *out, size_t count) {
    size_t i;
    *(int *)context = 1;
    for (i = 0; i < count; i++) {
        matrix a, b, c;
        memcpy(&a, (const char *)left + i * sizeof a, sizeof a);
        memcpy(&b, (const char *)right + i * sizeof b, sizeof b);
        c.m[0] = a.m[0] * b.m[0] + a.m[1] * b.m[2];
        c.m[1] = a.m[0] * b.m[1] + a.m[1] * b.m[3];
        c.m[2] = a.m[2] * b.m[0] + a.m[3] * b.m[2];
        c.m[3] = a.m[2] * b.m[1] + a.m[3] * b.m[3];
        memcpy((char *)out + i * sizeof c, &c, sizeof c);
    }
}

static matrix matrix_of(int rank) {
    matrix m = {{1, (uint32_t)rank + 1, (uint32_t)rank + 2, 3}};
    return m;
}

static void user_operator(tocsin_comm *comm, int rank, int size) {
    tocsin_request *request = NULL;
    matrix mine = matrix_of(rank), product, expected = matrix_of(0);
    int op = 0, called = 0, other;

    OK(tocsin_op_create(multiply, &called, 0, &op));
    OK(tocsin_iallreduce(comm, &mine, &product, 1, tocsin_type_opaque(sizeof mine), op, NULL, &request));
    wait_for(request);
    for (other = 1; other < size; other++) {
        matrix next = matrix_of(other);
        multiply(&called, &expected, &next, &expected, 1);
    }
    CHECK(memcmp(&product, &expected, sizeof product) == 0);
    CHECK(size == 1 || called == 1);
    OK(tocsin_op_free(&op));
    CHECK(op == 0);
}

static void all_to_all(tocsin_comm *comm, int rank, int size, size_t bytes) {
    size_t total = bytes * (size_t)size, i, wrong = 0;
    unsigned char *out = allocate(total), *in = allocate(total);
    tocsin_request *request = NULL;
    int other;

    for (other = 0; other < size; other++)
        for (i = 0; i < bytes; i++) out[(size_t)other * bytes + i] = pattern(rank, other, i);
    OK(tocsin_ialltoall(comm, out, in, bytes, NULL, &request));
    wait_for(request);
    for (other = 0; other < size; other++)
        for (i = 0; i < bytes; i++) wrong += in[(size_t)other * bytes + i] != pattern(other, rank, i);
    CHECK(wrong == 0);
    free(out);
    free(in);
}

/* Probes, wait_any, cancel, test: what a program may do with requests. */
static void requests(tocsin_comm *comm, int rank, int size) {
    int next = (rank + 1) % size, before = (rank + size - 1) % size;
    int value = rank, got[2] = {-1, -1}, found = 0, done = 0, cancelled = -1;
    tocsin_request *request = NULL, *two[2] = {NULL, NULL};
    tocsin_message *message = NULL;
    tocsin_status status;
    ptrdiff_t index = -2;

    OK(tocsin_isend(comm, &value, sizeof value, next, 21, &request));
    OK(tocsin_mprobe(comm, before, 21, &message, &status));
    CHECK(message != NULL && status.source == before && status.tag == 21 && status.bytes == sizeof value);
    OK(tocsin_mrecv(&message, got, sizeof got[0], &status));
    CHECK(message == NULL && got[0] == before);
    wait_for(request);

    OK(tocsin_iprobe(comm, before, 22, &found, &status));
    CHECK(found == 0);
    OK(tocsin_irecv(comm, &got[0], sizeof got[0], before, 22, &two[0]));
    OK(tocsin_irecv(comm, &got[1], sizeof got[1], before, 23, &two[1]));
    OK(tocsin_isend(comm, &value, sizeof value, next, 23, &request));
    OK(tocsin_waitany(2, two, &index, &status));
    CHECK(index == 1 && two[1] == NULL && two[0] != NULL && got[1] == before && status.tag == 23);
    wait_for(request);
    OK(tocsin_cancel(two[0], &cancelled));
    CHECK(cancelled == 1);
    FAILS(TOCSIN_ERROR_CANCELLED, tocsin_wait(&two[0], &status));
    CHECK(status.error == TOCSIN_ERROR_CANCELLED && two[0] == NULL);
    OK(tocsin_waitany(2, two, &index, NULL));
    CHECK(index == -1);

    OK(tocsin_irecv(comm, got, sizeof got[0], before, 24, &request));
    OK(tocsin_wait_timeout(&request, 1000, &done, NULL));
    CHECK(done == 0 && request != NULL);
    /* Nobody sends before everybody's wait has timed out. */
    OK(tocsin_ibarrier(comm, NULL, &two[1]));
    wait_for(two[1]);
    two[1] = NULL;
    OK(tocsin_isend(comm, &value, sizeof value, next, 24, &two[0]));
    while (!done) OK(tocsin_test(&request, &done, &status));
    CHECK(request == NULL && status.source == before);
    wait_for(two[0]);

    /* Looking frees nothing. */
    OK(tocsin_irecv(comm, got, sizeof got[0], before, 26, &request));
    OK(tocsin_is_done(request, &done));
    CHECK(done == 0 && request != NULL);
    OK(tocsin_ibarrier(comm, NULL, &two[1]));
    wait_for(two[1]);
    two[1] = NULL;
    OK(tocsin_send(comm, &value, sizeof value, next, 26));
    OK(tocsin_wait(&request, &status));
    OK(tocsin_is_done(request, &done));
    CHECK(done == 1 && got[0] == before && status.tag == 26);

    /* Blocking. */
    if (rank == 0) OK(tocsin_send(comm, &value, sizeof value, next, 27));
    OK(tocsin_recv(comm, &got[1], sizeof got[1], before, 27, &status));
    CHECK(got[1] == before && status.source == before && status.bytes == sizeof value);
    if (rank != 0) OK(tocsin_send(comm, &value, sizeof value, next, 27));
    FAILS(TOCSIN_ERROR_RANK, tocsin_send(comm, &value, sizeof value, size, 27));

    /* A message longer than the buffer: an error of this receive and of nothing else. */
    OK(tocsin_irecv(comm, got, 1, before, 25, &request));
    OK(tocsin_isend(comm, &value, sizeof value, next, 25, &two[0]));
    FAILS(TOCSIN_ERROR_TRUNCATED, tocsin_wait(&request, &status));
    CHECK(status.error == TOCSIN_ERROR_TRUNCATED && status.source == before);
    CHECK(status.tag == 25 && status.bytes == sizeof value);
    wait_for(two[0]);
    OK(tocsin_isend(comm, &value, sizeof value, next, 28, &two[0]));
    FAILS(TOCSIN_ERROR_TRUNCATED, tocsin_recv(comm, got, 1, TOCSIN_ANY_SOURCE, TOCSIN_ANY_TAG, &status));
    CHECK(status.source == before && status.tag == 28 && status.bytes == sizeof value);
    wait_for(two[0]);
}

/* Tests and waits of several requests: all, any, some. */
static void several(tocsin_comm *comm, int rank, int size) {
    int next = (rank + 1) % size, before = (rank + size - 1) % size, done = -1, value = rank, got[3], i, left;
    tocsin_request *three[3] = {NULL, NULL, NULL}, *meets = NULL, *sends[3];
    tocsin_status statuses[3], status;
    ptrdiff_t completed = -2, index = -2;
    size_t indices[3] = {9, 9, 9};

    /* Nothing to wait for. */
    OK(tocsin_testall(3, three, &done, statuses));
    CHECK(done == 1 && statuses[2].source == TOCSIN_ANY_SOURCE && statuses[2].error == TOCSIN_OK);
    OK(tocsin_testany(3, three, &done, &index, &status));
    CHECK(done == 1 && index == -1);
    OK(tocsin_waitsome(3, three, &completed, indices, statuses));
    CHECK(completed == -1);
    completed = -2;
    OK(tocsin_testsome(3, three, &completed, indices, NULL));
    CHECK(completed == -1 && indices[0] == 9);

    for (i = 0; i < 3; i++) OK(tocsin_irecv(comm, &got[i], sizeof got[i], before, 31 + i, &three[i]));
    OK(tocsin_testall(3, three, &done, statuses));
    CHECK(done == 0 && three[0] != NULL && three[1] != NULL && three[2] != NULL);
    OK(tocsin_testany(3, three, &done, &index, &status));
    CHECK(done == 0 && index == -1);
    OK(tocsin_testsome(3, three, &completed, indices, statuses));
    CHECK(completed == 0);
    /* Nobody sends before everybody has looked. */
#define MEET() \
    OK(tocsin_ibarrier(comm, NULL, &meets)); \
    wait_for(meets)
    MEET();
    OK(tocsin_send(comm, &value, sizeof value, next, 32));
    OK(tocsin_waitsome(3, three, &completed, indices, statuses));
    CHECK(completed == 1 && indices[0] == 1 && three[1] == NULL && three[0] != NULL);
    CHECK(statuses[0].tag == 32 && statuses[0].source == before && got[1] == before);
    MEET();
    OK(tocsin_send(comm, &value, sizeof value, next, 33));
    do OK(tocsin_testany(3, three, &done, &index, &status));
    while (!done);
    CHECK(index == 2 && three[2] == NULL && status.tag == 33 && got[2] == before);
    MEET();
#undef MEET
    OK(tocsin_send(comm, &value, sizeof value, next, 31));
    do OK(tocsin_testall(3, three, &done, statuses));
    while (!done);
    CHECK(three[0] == NULL && statuses[0].tag == 31 && statuses[1].tag == TOCSIN_ANY_TAG && got[0] == before);

    /* Some until none is left; the statuses of those that fail say so, and the call names the first. */
    for (i = 0; i < 3; i++) OK(tocsin_irecv(comm, &got[i], i == 1 ? 2 : sizeof got[i], before, 34 + i, &three[i]));
    for (i = 0; i < 3; i++) OK(tocsin_isend(comm, &value, sizeof value, next, 34 + i, &sends[i]));
    for (left = 3, done = 0; left > 0; left -= (int)completed) {
        int code = tocsin_waitsome(3, three, &completed, indices, statuses), cut = 0;
        CHECK(completed > 0 && completed <= left);
        for (i = 0; i < completed; i++) {
            cut |= indices[i] == 1;
            CHECK(statuses[i].tag == 34 + (int)indices[i]);
            CHECK(statuses[i].error == (indices[i] == 1 ? TOCSIN_ERROR_TRUNCATED : TOCSIN_OK));
        }
        CHECK(code == (cut ? TOCSIN_ERROR_TRUNCATED : TOCSIN_OK));
        done += cut;
    }
    CHECK(done == 1);
    for (i = 0; i < 3; i++) wait_for(sends[i]);

    /* A probe that waits. */
    OK(tocsin_isend(comm, &value, sizeof value, next, 37, &sends[0]));
    OK(tocsin_probe(comm, TOCSIN_ANY_SOURCE, 37, &status));
    CHECK(status.source == before && status.bytes == sizeof value && status.tag == 37);
    OK(tocsin_recv(comm, got, sizeof got[0], status.source, 37, NULL));
    CHECK(got[0] == before);
    wait_for(sends[0]);
}

/* One wait for what is over, what is not, what is nothing, and what is persistent, active or not: none, one or several of them to be waited for, with statuses or without. */
static void together(tocsin_comm *comm, int rank, int size) {
    enum { SENT, NONE, FIRST, ACTIVE, INACTIVE, SECOND, COUNT };
    int next = (rank + 1) % size, before = (rank + size - 1) % size, value = 100 + rank, got[3], run;
    tocsin_request *all[COUNT], *starts = NULL, *never = NULL;
    tocsin_status statuses[COUNT];

    OK(tocsin_send_init(comm, &value, sizeof value, next, 63, &starts));
    OK(tocsin_recv_init(comm, &got[2], sizeof got[2], before, 64, &never));
    /* How many receives are waited for, and whether with statuses; the second one's message is too long for it where it is the last run. */
    for (run = 0; run < 9; run++) {
        int second = run >= 4, first = run >= 2, too_long = run == 8, told = run % 3 != 1, starts_too = run % 2;
        memset(all, 0, sizeof all);
        memset(statuses, 0x5a, sizeof statuses);
        got[0] = got[1] = -1;
        if (first) OK(tocsin_irecv(comm, &got[0], sizeof got[0], before, 61, &all[FIRST]));
        if (second) OK(tocsin_irecv(comm, &got[1], too_long ? 1 : sizeof got[1], TOCSIN_ANY_SOURCE, 62, &all[SECOND]));
        OK(tocsin_isend(comm, &value, sizeof value, next, 60, &all[SENT]));
        if (first) OK(tocsin_send(comm, &value, sizeof value, next, 61));
        if (second) OK(tocsin_send(comm, &value, sizeof value, next, 62));
        if (starts_too) OK(tocsin_start(starts));
        all[ACTIVE] = starts;
        all[INACTIVE] = never;
        if (too_long)
            FAILS(TOCSIN_ERROR_TRUNCATED, tocsin_waitall(COUNT, all, statuses));
        else
            OK(tocsin_waitall(COUNT, all, told ? statuses : NULL));
        CHECK(all[SENT] == NULL && all[NONE] == NULL && all[FIRST] == NULL && all[SECOND] == NULL);
        CHECK(all[ACTIVE] == starts && all[INACTIVE] == never);
        if (told) {
            CHECK(statuses[SENT].error == TOCSIN_OK && statuses[SENT].source == rank && statuses[SENT].tag == 60);
            CHECK(statuses[SENT].bytes == sizeof value && statuses[NONE].error == TOCSIN_OK && statuses[NONE].tag == -1);
            CHECK(statuses[ACTIVE].error == TOCSIN_OK && statuses[ACTIVE].tag == (starts_too ? 63 : -1));
            CHECK(statuses[INACTIVE].error == TOCSIN_OK && statuses[INACTIVE].tag == -1);
            CHECK(!first || (statuses[FIRST].source == before && statuses[FIRST].bytes == sizeof value));
            CHECK(!second || (statuses[SECOND].source == before && statuses[SECOND].tag == 62));
            CHECK(!second || statuses[SECOND].error == (too_long ? TOCSIN_ERROR_TRUNCATED : TOCSIN_OK));
        }
        CHECK(got[0] == (first ? 100 + before : -1) && (too_long || got[1] == (second ? 100 + before : -1)));
        OK(tocsin_recv(comm, &got[2], sizeof got[2], before, 60, NULL));
        if (starts_too) OK(tocsin_recv(comm, &got[2], sizeof got[2], before, 63, NULL));
    }
    OK(tocsin_request_free(&starts));
    OK(tocsin_request_free(&never));
}

static void communicators(tocsin_comm *comm, int rank, int size) {
    tocsin_comm *duplicate = NULL, *part = NULL, *none = NULL;
    int part_rank = -1, part_size = -1;

    OK(tocsin_comm_dup(comm, &duplicate));
    ring(duplicate, rank, size, 100, 0);
    OK(tocsin_comm_split(duplicate, rank % 2, -rank, &part));
    OK(tocsin_comm_rank(part, &part_rank));
    OK(tocsin_comm_size(part, &part_size));
    CHECK(part_size == (size + 1 - rank % 2) / 2);
    CHECK(part_rank == part_size - 1 - rank / 2);
    reduce(part, part_rank, part_size, 5, NULL);
    OK(tocsin_comm_split(duplicate, TOCSIN_UNDEFINED, 0, &none));
    CHECK(none == NULL);
    OK(tocsin_comm_free(&part));
    OK(tocsin_comm_free(&duplicate));
    CHECK(part == NULL && duplicate == NULL);
}

#include "blocking.h"
#include "collectives.h"
#include "persistent.h"
#include "prepared.h"
#include "sent.h"

static void exchange(tocsin_comm *comm) {
    static const size_t sizes[] = {0, 1, 100, 8192, 65536, 300001};
    tocsin_request *request = NULL;
    int rank = -1, size = 0;
    size_t i;

    OK(tocsin_comm_rank(comm, &rank));
    OK(tocsin_comm_size(comm, &size));
    for (i = 0; i < sizeof sizes / sizeof sizes[0]; i++) {
        ring(comm, rank, size, sizes[i], (int)(i % 2));
        heap_ring(comm, rank, size, sizes[i], (int)(i % 2));
        line(comm, rank, size, sizes[i]);
        broadcast(comm, rank, size, sizes[i], i % 2 ? "binomial" : NULL);
        reduce(comm, rank, size, sizes[i] / 8, i % 2 ? "recursive-doubling" : NULL);
        all_to_all(comm, rank, size, sizes[i] / 4);
        OK(tocsin_ibarrier(comm, NULL, &request));
        wait_for(request);
    }
    blocking(comm, rank, size);
    collectives(comm, rank, size);
    persistent(comm, rank, size);
    persistent_messages(comm, rank, size);
    user_operator(comm, rank, size);
    requests(comm, rank, size);
    sent(comm, rank, size);
    together(comm, rank, size);
    several(comm, rank, size);
    communicators(comm, rank, size);
}

#endif
