/* Persistent messages, restarted with other contents, on any communicator. */
#ifndef PREPARED_H
#define PREPARED_H

enum { MESSAGES = 6, PAIRS = 3, RUNS = 12 };

/* Ends all that are active by one of the calls for arrays; each once. */
static void end_messages(int run, tocsin_request **requests, tocsin_status *statuses) {
    tocsin_status some[MESSAGES];
    size_t indices[MESSAGES];
    ptrdiff_t index = -2, completed = 0, ended = 0;
    int done = 0, k;

    if (run % 6 == 0) {
        OK(tocsin_waitall(MESSAGES, requests, statuses));
    } else if (run % 6 == 1) {
        while (!done) OK(tocsin_testall(MESSAGES, requests, &done, statuses));
    } else if (run % 6 == 2) {
        for (k = 0; k < MESSAGES; k++) {
            OK(tocsin_waitany(MESSAGES, requests, &index, &some[0]));
            CHECK(index >= 0);
            if (index >= 0) statuses[index] = some[0];
        }
    } else if (run % 6 == 3) {
        while (ended < MESSAGES) {
            OK(tocsin_testany(MESSAGES, requests, &done, &index, &some[0]));
            if (!done) continue;
            CHECK(index >= 0);
            if (index >= 0) statuses[index] = some[0];
            ended++;
        }
    } else if (run % 6 == 4 || run % 6 == 5) {
        while (ended < MESSAGES) {
            if (run % 6 == 4)
                OK(tocsin_waitsome(MESSAGES, requests, &completed, indices, some));
            else
                OK(tocsin_testsome(MESSAGES, requests, &completed, indices, some));
            CHECK(completed >= (run % 6 == 4));
            for (k = 0; k < completed; k++) statuses[indices[k]] = some[k];
            ended += completed;
        }
        CHECK(ended == MESSAGES);
    }
    /* Nothing is active, and all are there. */
    OK(tocsin_waitany(MESSAGES, requests, &index, NULL));
    CHECK(index == -1);
    for (k = 0; k < MESSAGES; k++) CHECK(requests[k] != NULL);
}

/* Each rank sends three messages to the next one in each run: two of send_init and one of ssend_init. */
static void exchange_messages(tocsin_comm *comm, int rank, int size, size_t bytes) {
    tocsin_request *requests[MESSAGES];
    tocsin_status statuses[MESSAGES];
    unsigned char *in[PAIRS], *out[PAIRS];
    int next = (rank + 1) % size, last = (rank + size - 1) % size;
    int run, k;
    size_t i, wrong;

    for (k = 0; k < PAIRS; k++) {
        in[k] = allocate(bytes);
        out[k] = allocate(bytes);
        OK(tocsin_recv_init(comm, in[k], bytes, k == 1 ? TOCSIN_ANY_SOURCE : last, 40 + k, &requests[k]));
        if (k < 2)
            OK(tocsin_send_init(comm, out[k], bytes, next, 40 + k, &requests[PAIRS + k]));
        else
            OK(tocsin_ssend_init(comm, out[k], bytes, next, 40 + k, &requests[PAIRS + k]));
    }
    for (run = 0; run < RUNS; run++) {
        for (k = 0; k < PAIRS; k++) {
            memset(in[k], 0, bytes);
            for (i = 0; i < bytes; i++) out[k][i] = nth(run, rank, k, i);
        }
        OK(tocsin_startall(MESSAGES, requests));
        FAILS(TOCSIN_ERROR_ARGUMENT, tocsin_start(requests[0]));
        FAILS(TOCSIN_ERROR_ARGUMENT, tocsin_start(requests[PAIRS]));
        CHECK(strstr(tocsin_last_error(), "active") != NULL);
        end_messages(run, requests, statuses);
        for (wrong = 0, k = 0; k < PAIRS; k++) {
            CHECK(statuses[k].source == last && statuses[k].tag == 40 + k && statuses[k].bytes == bytes);
            CHECK(statuses[PAIRS + k].error == TOCSIN_OK);
            for (i = 0; i < bytes; i++) wrong += in[k][i] != nth(run, last, k, i);
        }
        CHECK(wrong == 0);
    }
    for (k = 0; k < MESSAGES; k++) {
        OK(tocsin_request_free(&requests[k]));
        CHECK(requests[k] == NULL);
    }
    for (k = 0; k < PAIRS; k++) {
        free(in[k]);
        free(out[k]);
    }
}

static void persistent_messages(tocsin_comm *comm, int rank, int size) {
    tocsin_request *request = NULL;
    tocsin_status status;
    unsigned char word[8] = {0};
    int cancelled = 0, told = 0, run;

    exchange_messages(comm, rank, size, 0);
    exchange_messages(comm, rank, size, 64);
    exchange_messages(comm, rank, size, 5000);
    exchange_messages(comm, rank, size, 1 << 20);

    /* What is refused. */
    FAILS(TOCSIN_ERROR_RANK, tocsin_send_init(comm, word, 8, size, 0, &request));
    FAILS(TOCSIN_ERROR_RANK, tocsin_ssend_init(comm, word, 8, -1, 0, &request));
    FAILS(TOCSIN_ERROR_TAG, tocsin_send_init(comm, word, 8, 0, -1, &request));
    FAILS(TOCSIN_ERROR_RANK, tocsin_recv_init(comm, word, 8, size, 0, &request));
    FAILS(TOCSIN_ERROR_TAG, tocsin_recv_init(comm, word, 8, 0, -2, &request));
    FAILS(TOCSIN_ERROR_ARGUMENT, tocsin_recv_init(comm, NULL, 8, 0, 0, &request));
    FAILS(TOCSIN_ERROR_ARGUMENT, tocsin_send_init(NULL, word, 8, 0, 0, &request));
    FAILS(TOCSIN_ERROR_ARGUMENT, tocsin_recv_init(comm, word, 8, 0, 0, NULL));
    CHECK(request == NULL);

    /* Cancelled, and started again; a callback is told of one run. */
    OK(tocsin_recv_init(comm, word, sizeof word, rank, TOCSIN_ANY_TAG, &request));
    for (run = 0; run < 3; run++) {
        OK(tocsin_start(request));
        OK(tocsin_cancel(request, &cancelled));
        CHECK(cancelled == 1);
        FAILS(TOCSIN_ERROR_CANCELLED, tocsin_wait(&request, &status));
        CHECK(request != NULL && status.error == TOCSIN_ERROR_CANCELLED);
        OK(tocsin_wait(&request, &status));
        CHECK(status.source == -1);
    }
    OK(tocsin_start(request));
    OK(tocsin_on_complete(request, tell, &told));
    OK(tocsin_send(comm, "tocsin!", 8, rank, 3));
    OK(tocsin_wait(&request, &status));
    CHECK(status.source == rank && status.tag == 3 && status.bytes == 8 && memcmp(word, "tocsin!", 8) == 0);
    while (__atomic_load_n(&told, __ATOMIC_ACQUIRE) == 0) OK(tocsin_progress(comm));
    CHECK(told == 1);
    OK(tocsin_request_free(&request));
    CHECK(request == NULL);
}

#endif
