/* Persistent collectives, restarted with other contents, on any communicator. */
#ifndef PERSISTENT_H
#define PERSISTENT_H

enum { OPERATIONS = 17, STARTS = 3 };

/* Byte `i` that `source` has for `dest` in a run. */
static unsigned char nth(int run, int source, int dest, size_t i) {
    return (unsigned char)(pattern(source, dest, i) + 3 * run);
}

static void fill_blocks(unsigned char *at, int run, int rank, int size, size_t bytes, int for_all) {
    size_t i;
    int r;
    for (r = 0; r < size; r++)
        for (i = 0; i < bytes; i++) at[(size_t)r * bytes + i] = nth(run, rank, for_all ? 0 : r, i);
}

/* Block r came from rank r, for `dest`. */
static size_t wrong_blocks(const unsigned char *at, int run, int dest, int size, size_t bytes) {
    size_t i, wrong = 0;
    int r;
    for (r = 0; r < size; r++)
        for (i = 0; i < bytes; i++) wrong += at[(size_t)r * bytes + i] != nth(run, r, dest, i);
    return wrong;
}

/* Everything of each operation: what goes out, what comes in. Blocks are `bytes` long, vectors have `bytes` / 8 elements. */
typedef struct {
    unsigned char *out, *in;
} buffers;

static void prepare_all(tocsin_comm *comm, int rank, int size, size_t bytes, buffers *b, tocsin_request **requests) {
    size_t n = (size_t)size, count = bytes / 8, *lengths = (size_t *)allocate(n * sizeof(size_t));
    size_t *counts = (size_t *)allocate(n * sizeof(size_t));
    int *types = (int *)allocate(n * sizeof(int));
    int root = size - 1, at = 0, r;

    for (r = 0; r < size; r++) {
        lengths[r] = bytes;
        counts[r] = count;
        types[r] = TOCSIN_DOUBLE;
    }
    for (r = 0; r < OPERATIONS; r++) {
        b[r].out = allocate(bytes * n);
        b[r].in = allocate(bytes * n);
    }
    OK(tocsin_barrier_init(comm, NULL, &requests[at++]));
    OK(tocsin_bcast_init(comm, b[1].in, bytes, root, NULL, &requests[at++]));
    OK(tocsin_scatter_init(comm, b[2].out, b[2].in, bytes, root, NULL, &requests[at++]));
    OK(tocsin_scatterv_init(comm, b[3].out, lengths, NULL, b[3].in, bytes, root, NULL, &requests[at++]));
    OK(tocsin_gather_init(comm, b[4].out, b[4].in, bytes, root, NULL, &requests[at++]));
    OK(tocsin_gatherv_init(comm, b[5].out, bytes, b[5].in, lengths, NULL, root, NULL, &requests[at++]));
    OK(tocsin_allgather_init(comm, b[6].out, b[6].in, bytes, NULL, &requests[at++]));
    OK(tocsin_allgatherv_init(comm, b[7].out, b[7].in, lengths, NULL, NULL, &requests[at++]));
    OK(tocsin_alltoall_init(comm, b[8].out, b[8].in, bytes, NULL, &requests[at++]));
    OK(tocsin_alltoallv_init(comm, b[9].out, lengths, NULL, b[9].in, lengths, NULL, NULL, &requests[at++]));
    OK(tocsin_alltoallw_init(comm, b[10].out, counts, NULL, types, b[10].in, counts, NULL, types, NULL,
                             &requests[at++]));
    OK(tocsin_reduce_init(comm, b[11].out, rank == root ? b[11].in : NULL, count, TOCSIN_INT64, TOCSIN_SUM, root,
                          NULL, &requests[at++]));
    OK(tocsin_allreduce_init(comm, NULL, b[12].in, count, TOCSIN_INT64, TOCSIN_SUM, NULL, &requests[at++]));
    OK(tocsin_reduce_scatter_init(comm, b[13].out, b[13].in, counts, TOCSIN_INT64, TOCSIN_SUM, NULL, &requests[at++]));
    OK(tocsin_reduce_scatter_block_init(comm, b[14].out, b[14].in, count, TOCSIN_INT64, TOCSIN_SUM, NULL,
                                        &requests[at++]));
    OK(tocsin_scan_init(comm, b[15].out, b[15].in, count, TOCSIN_INT64, TOCSIN_SUM, NULL, &requests[at++]));
    OK(tocsin_exscan_init(comm, b[16].out, b[16].in, count, TOCSIN_INT64, TOCSIN_SUM, NULL, &requests[at++]));
    CHECK(at == OPERATIONS);
    free(lengths);
    free(counts);
    free(types);
}

/* Rank r contributes run * (r + 1) * (i + 1). */
static void fill_elements(unsigned char *at, int run, int rank, size_t count) {
    size_t i;
    for (i = 0; i < count; i++) {
        int64_t x = run * (rank + 1) * ((int64_t)i + 1);
        memcpy(at + i * sizeof x, &x, sizeof x);
    }
}

/* Elements from `start` on of the sum over the first `ranks` ranks. */
static size_t wrong_sums(const unsigned char *at, int run, int ranks, size_t start, size_t count) {
    size_t i, wrong = 0;
    for (i = 0; i < count; i++) {
        int64_t x;
        memcpy(&x, at + i * sizeof x, sizeof x);
        wrong += x != run * sum_of(ranks, start + i);
    }
    return wrong;
}

static void fill_all(buffers *b, int run, int rank, int size, size_t bytes) {
    size_t n = (size_t)size, count = bytes / 8;
    int k;
    for (k = 0; k < OPERATIONS; k++) {
        memset(b[k].in, 0, bytes * n);
        if (k < 11)
            /* One block for all, in 4 to 7. */
            fill_blocks(b[k].out, run, rank, size, bytes, k >= 4 && k <= 7);
        else
            fill_elements(b[k].out, run, rank, count * n);
    }
    if (rank == size - 1) memcpy(b[1].in, b[4].out, bytes);
    memcpy(b[12].in, b[12].out, bytes);
}

static void check_all(const buffers *b, int run, int rank, int size, size_t bytes) {
    size_t count = bytes / 8, i, wrong = 0;
    int root = size - 1, k;
    for (i = 0; i < bytes; i++) {
        wrong += b[1].in[i] != nth(run, root, 0, i);
        wrong += b[2].in[i] != nth(run, root, rank, i);
        wrong += b[3].in[i] != nth(run, root, rank, i);
    }
    for (k = 4; k <= 10; k++)
        if (k >= 6 || rank == root) wrong += wrong_blocks(b[k].in, run, k >= 8 ? rank : 0, size, bytes);
    CHECK(wrong == 0);
    if (rank == root) wrong += wrong_sums(b[11].in, run, size, 0, count);
    wrong += wrong_sums(b[12].in, run, size, 0, count);
    wrong += wrong_sums(b[13].in, run, size, (size_t)rank * count, count);
    wrong += wrong_sums(b[14].in, run, size, (size_t)rank * count, count);
    wrong += wrong_sums(b[15].in, run, rank + 1, 0, count);
    if (rank > 0) wrong += wrong_sums(b[16].in, run, rank, 0, count);
    CHECK(wrong == 0);
}

static void restarted(tocsin_comm *comm, int rank, int size, size_t bytes) {
    tocsin_request *requests[OPERATIONS], *other = NULL;
    tocsin_status statuses[OPERATIONS];
    buffers b[OPERATIONS];
    ptrdiff_t index = -2;
    int run, k, done = 0;

    memset(requests, 0, sizeof requests);
    prepare_all(comm, rank, size, bytes, b, requests);
    /* Nothing is active. */
    OK(tocsin_waitany(OPERATIONS, requests, &index, NULL));
    CHECK(index == -1);
    OK(tocsin_waitall(OPERATIONS, requests, statuses));
    CHECK(requests[0] != NULL && statuses[0].error == TOCSIN_OK && statuses[0].source == -1);

    for (run = 1; run <= STARTS; run++) {
        fill_all(b, run, rank, size, bytes);
        if (run == 1) {
            OK(tocsin_startall(OPERATIONS, requests));
        } else {
            for (k = 0; k < OPERATIONS; k++) {
                OK(tocsin_start(requests[k]));
                if (k == 7) OK(tocsin_ibarrier(comm, NULL, &other));
            }
            FAILS(TOCSIN_ERROR_ARGUMENT, tocsin_start(requests[3]));
            CHECK(strstr(tocsin_last_error(), "scatterv") != NULL && strstr(tocsin_last_error(), "active") != NULL);
            OK(tocsin_wait(&other, NULL));
        }
        if (run == 2) {
            /* Each once, and then none. */
            for (k = 0; k < OPERATIONS; k++) {
                OK(tocsin_waitany(OPERATIONS, requests, &index, &statuses[0]));
                CHECK(index >= 0 && statuses[0].source == rank);
            }
            OK(tocsin_waitany(OPERATIONS, requests, &index, NULL));
            CHECK(index == -1);
        } else if (run == 3) {
            for (k = OPERATIONS - 1; k >= 0; k--) {
                done = 0;
                while (!done) OK(tocsin_test(&requests[k], &done, NULL));
                OK(tocsin_is_done(requests[k], &done));
                CHECK(done == 1);
                OK(tocsin_wait(&requests[k], NULL));
                CHECK(requests[k] != NULL);
            }
        } else {
            OK(tocsin_waitall(OPERATIONS, requests, statuses));
            CHECK(statuses[16].source == rank);
        }
        check_all(b, run, rank, size, bytes);
    }
    for (k = 0; k < OPERATIONS; k++) {
        OK(tocsin_request_free(&requests[k]));
        CHECK(requests[k] == NULL);
        free(b[k].out);
        free(b[k].in);
    }
}

/* Counts runs that succeeded as 1, others as 100. */
static void tell(void *argument, const tocsin_status *status) {
    *(int *)argument += status->error == TOCSIN_OK ? 1 : 100;
}

/* A callback leaves a run that is complete active, until a wait. */
static void told_before_the_wait(tocsin_comm *comm, int rank) {
    tocsin_request *request = NULL;
    tocsin_status status;
    int done = 0, told = 0;

    OK(tocsin_barrier_init(comm, NULL, &request));
    OK(tocsin_start(request));
    while (!done) {
        OK(tocsin_progress(comm));
        OK(tocsin_is_done(request, &done));
    }
    OK(tocsin_on_complete(request, tell, &told));
    CHECK(told == 1);
    FAILS(TOCSIN_ERROR_ARGUMENT, tocsin_start(request));
    OK(tocsin_wait(&request, &status));
    CHECK(status.source == rank);
    OK(tocsin_wait(&request, &status));
    CHECK(status.source == -1);
    OK(tocsin_request_free(&request));
}

static void persistent(tocsin_comm *comm, int rank, int size) {
    tocsin_request *request = NULL, *none[2] = {NULL, NULL};
    int64_t *sum = (int64_t *)allocate(sizeof *sum);

    *sum = 1;
    restarted(comm, rank, size, 0);
    restarted(comm, rank, size, 800);
    restarted(comm, rank, size, 80000);
    told_before_the_wait(comm, rank);

    /* What is refused. */
    FAILS(TOCSIN_ERROR_ARGUMENT, tocsin_start(NULL));
    FAILS(TOCSIN_ERROR_ARGUMENT, tocsin_startall(2, none));
    FAILS(TOCSIN_ERROR_ARGUMENT, tocsin_startall(2, NULL));
    FAILS(TOCSIN_ERROR_RANK, tocsin_bcast_init(comm, sum, 8, size, NULL, &request));
    FAILS(TOCSIN_ERROR_ALGORITHM, tocsin_barrier_init(comm, "rumour", &request));
    FAILS(TOCSIN_ERROR_ARGUMENT, tocsin_barrier_init(NULL, NULL, &request));
    FAILS(TOCSIN_ERROR_ARGUMENT, tocsin_barrier_init(comm, NULL, NULL));
    CHECK(request == NULL);
    OK(tocsin_ibarrier(comm, NULL, &request));
    FAILS(TOCSIN_ERROR_ARGUMENT, tocsin_start(request));
    CHECK(strstr(tocsin_last_error(), "not persistent") != NULL);
    wait_for(request);

    /* Freed while active: its run goes on, in a buffer that is never freed. */
    OK(tocsin_allreduce_init(comm, NULL, sum, 1, TOCSIN_INT64, TOCSIN_SUM, NULL, &request));
    OK(tocsin_start(request));
    OK(tocsin_request_free(&request));
    OK(tocsin_barrier_init(comm, "linear", &request));
    OK(tocsin_start(request));
    OK(tocsin_wait(&request, NULL));
    OK(tocsin_request_free(&request));
}

#endif
