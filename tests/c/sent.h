/* Sends of one that are over at once, by every call that takes a request. Valid C11 and C++. */
#ifndef SENT_H
#define SENT_H

#include <stdint.h>

#include "check.h"

/* From whom and to whom they are, how many there were, and how many of them were over at once. */
typedef struct {
    tocsin_comm *comm;
    int from, to, count, at_once;
} sends;

/* One send more, of as many bytes as it has a tag. */
static tocsin_request *one_sent(sends *all) {
    static const unsigned char bytes[9] = {0};
    tocsin_request *request = NULL;
    int tag = all->count++;
    OK(tocsin_isend(all->comm, bytes, (size_t)(tag % 9), all->to, tag, &request));
    CHECK(request != NULL);
    /* Such a handle is no address. */
    all->at_once += (int)((uintptr_t)request % 2);
    return request;
}

static int says(const tocsin_status *status, const sends *all, int tag) {
    return status->error == TOCSIN_OK && status->source == all->from && status->tag == tag && status->bytes == (size_t)(tag % 9);
}

static void note_status(void *argument, const tocsin_status *status) {
    *(tocsin_status *)argument = *status;
}

/* Two sends that are over at once, and alike, beside a receive whose message nobody has sent yet. */
static void beside(tocsin_comm *comm, const sends *all, int size) {
    enum { HELD = 900, ALIKE = 901 };
    tocsin_request *four[4] = {NULL, NULL, NULL, NULL}, *before[3];
    tocsin_status status, statuses[4];
    ptrdiff_t index = -2, completed = -2;
    size_t indices[4];
    int got = -1, value = all->from, done = -1, i, call;

    for (call = 0; call < 5; call++) {
        int from = (all->from + size - 1) % size;
        got = -1;
        OK(tocsin_irecv(comm, &got, sizeof got, from, HELD, &four[0]));
        OK(tocsin_isend(comm, &value, sizeof value, all->to, ALIKE, &four[1]));
        OK(tocsin_isend(comm, &value, sizeof value, all->to, ALIKE, &four[2]));
        for (i = 0; i < 3; i++) before[i] = four[i];
        switch (call) {
        case 0:
            OK(tocsin_testall(3, four, &done, statuses));
            CHECK(done == 0);
            for (i = 0; i < 3; i++) CHECK(four[i] == before[i]);
            break;
        case 1:
            OK(tocsin_waitany(4, four, &index, &status));
            CHECK((index == 1 || index == 2) && !four[index] && four[0] == before[0] && four[3 - index] == before[3 - index]);
            CHECK(status.tag == ALIKE && status.source == all->from && status.bytes == sizeof value);
            break;
        case 2:
            done = 0;
            while (!done) OK(tocsin_testany(4, four, &done, &index, &status));
            CHECK((index == 1 || index == 2) && !four[index] && four[0] == before[0] && four[3 - index] == before[3 - index]);
            CHECK(status.tag == ALIKE && status.source == all->from && status.bytes == sizeof value);
            break;
        case 3:
            OK(tocsin_waitsome(4, four, &completed, indices, statuses));
            CHECK(completed >= 1 && four[0] == before[0]);
            for (i = 0; i < completed; i++) CHECK(indices[i] > 0 && !four[indices[i]] && statuses[i].tag == ALIKE);
            FAILS(TOCSIN_ERROR_ARGUMENT, tocsin_startall(1, &four[0]));
            CHECK(four[0] == before[0]);
            break;
        default:
            break;
        }
        /* Nobody's message is sent before all have looked. */
        OK(tocsin_barrier(comm, NULL));
        OK(tocsin_send(comm, &value, sizeof value, all->to, HELD));
        memset(statuses, 0x5a, sizeof statuses);
        OK(tocsin_waitall(4, four, statuses));
        CHECK(!four[0] && !four[1] && !four[2] && got == from);
        CHECK(statuses[0].tag == HELD && statuses[0].source == from && statuses[0].bytes == sizeof got);
        CHECK(call != 4 || (statuses[1].tag == ALIKE && statuses[2].tag == ALIKE && statuses[2].bytes == sizeof value));
        for (i = 0; i < 2; i++) OK(tocsin_recv(comm, &got, sizeof got, from, ALIKE, NULL));
    }
    four[0] = (tocsin_request *)&got;
    FAILS(TOCSIN_ERROR_RANK, tocsin_isend(comm, &value, sizeof value, size, 1, &four[0]));
    CHECK(four[0] == NULL);
}

static void sent(tocsin_comm *comm, int rank, int size) {
    tocsin_request *request, *four[4];
    tocsin_status status, statuses[4], none;
    sends all;
    ptrdiff_t index = -2, completed = -2;
    size_t indices[4];
    int done, cancelled, i, left = 4;

    all.comm = comm;
    all.from = rank;
    all.to = (rank + 1) % size;
    all.count = all.at_once = 0;
    memset(&none, 0x5a, sizeof none);

    done = 0, status = none, request = one_sent(&all);
    while (!done) OK(tocsin_test(&request, &done, &status));
    CHECK(request == NULL && says(&status, &all, 0));

    status = none, request = one_sent(&all);
    OK(tocsin_wait(&request, &status));
    CHECK(request == NULL && says(&status, &all, 1));
    request = one_sent(&all);
    OK(tocsin_wait(&request, NULL));
    CHECK(request == NULL);

    status = none, done = 0, request = one_sent(&all);
    OK(tocsin_wait_timeout(&request, 1000000000000, &done, &status));
    CHECK(done == 1 && request == NULL && says(&status, &all, 3));

    done = 0, request = one_sent(&all);
    while (!done) {
        OK(tocsin_progress(comm));
        OK(tocsin_is_done(request, &done));
    }
    CHECK(request != NULL);
    OK(tocsin_cancel(request, &cancelled));
    CHECK(cancelled == 0);
    FAILS(TOCSIN_ERROR_ARGUMENT, tocsin_cancel(request, NULL));
    FAILS(TOCSIN_ERROR_ARGUMENT, tocsin_start(request));
    FAILS(TOCSIN_ERROR_ARGUMENT, tocsin_startall(1, &request));
    status = none;
    OK(tocsin_on_complete(request, note_status, &status));
    CHECK(says(&status, &all, 4));
    status = none;
    OK(tocsin_wait(&request, &status));
    CHECK(request == NULL && says(&status, &all, 4));

    request = one_sent(&all);
    OK(tocsin_request_free(&request));
    CHECK(request == NULL);

    four[0] = one_sent(&all), four[1] = NULL, four[2] = one_sent(&all), four[3] = one_sent(&all);
    OK(tocsin_waitall(4, four, statuses));
    CHECK(!four[0] && !four[2] && !four[3] && says(&statuses[0], &all, 6) && says(&statuses[2], &all, 7) && says(&statuses[3], &all, 8));
    CHECK(statuses[1].error == TOCSIN_OK && statuses[1].tag == -1);
    for (i = 0; i < 4; i++) four[i] = one_sent(&all);
    OK(tocsin_waitall(4, four, NULL));
    CHECK(!four[0] && !four[1] && !four[2] && !four[3]);

    four[0] = one_sent(&all), four[1] = one_sent(&all), done = 0;
    while (!done) OK(tocsin_testall(2, four, &done, statuses));
    CHECK(!four[0] && !four[1] && says(&statuses[0], &all, 13) && says(&statuses[1], &all, 14));

    four[0] = NULL, four[1] = one_sent(&all), four[2] = one_sent(&all);
    OK(tocsin_waitany(3, four, &index, &status));
    CHECK(index == 1 && !four[1] && four[2] && says(&status, &all, 15));
    done = 0;
    while (!done) OK(tocsin_testany(3, four, &done, &index, &status));
    CHECK(index == 2 && !four[2] && says(&status, &all, 16));

    for (i = 0; i < 4; i++) four[i] = one_sent(&all);
    OK(tocsin_waitsome(4, four, &completed, indices, statuses));
    CHECK(completed > 0);
    while (left > 0) {
        left -= (int)completed;
        for (i = 0; i < completed; i++) CHECK(!four[indices[i]] && says(&statuses[i], &all, 17 + (int)indices[i]));
        if (left > 0) OK(tocsin_testsome(4, four, &completed, indices, statuses));
    }

    /* Beside a receive that is pending, and where two are alike. */
    beside(comm, &all, size);

    /* The largest tag. */
    status = none;
    OK(tocsin_isend(comm, &i, sizeof i, all.to, INT32_MAX, &request));
    OK(tocsin_wait(&request, &status));
    CHECK(request == NULL && status.source == rank && status.tag == INT32_MAX && status.bytes == sizeof i);

    for (i = 0; i < all.count; i++) {
        unsigned char bytes[16];
        OK(tocsin_recv(comm, bytes, sizeof bytes, (rank + size - 1) % size, i, &status));
        CHECK(status.bytes == (size_t)(i % 9));
    }
    OK(tocsin_recv(comm, &i, sizeof i, (rank + size - 1) % size, INT32_MAX, NULL));
    CHECK(size == 1 || all.at_once > 0);
}

#endif
