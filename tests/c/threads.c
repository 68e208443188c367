/* Ranks as threads of this process. The argument is their number. */
#include "exchange.h"

static int body(tocsin_comm *comm, void *argument) {
    int size = 0;
    OK(tocsin_comm_size(comm, &size));
    CHECK(size == *(int *)argument);
    exchange(comm);
    return 0;
}

static int failing(tocsin_comm *comm, void *argument) {
    int rank = -1;
    (void)argument;
    OK(tocsin_comm_rank(comm, &rank));
    return rank == 1 ? 42 : 0;
}

/* A communicator, and a receive there. */
struct both {
    tocsin_comm *comm;
    tocsin_request *pending;
};

/* A call that starts something, which an operator must not: whatever stood in `request`, there is no handle. */
#define REFUSED(call) \
    do { \
        request = (tocsin_request *)&byte; \
        FAILS(TOCSIN_ERROR_THREAD, call); \
        CHECK(request == NULL); \
    } while (0)

/* Adds, and tries what an operator must not do with what its context is. */
static void meddling(void *context, const void *left, const void *right, void *out, size_t count) {
    struct both *both = (struct both *)context;
    char byte = 0;
    tocsin_request *request, **pending = &both->pending;
    tocsin_message *message = NULL;
    tocsin_statistics statistics;
    int done = 0, cancelled = 0, rank = -1;
    ptrdiff_t index = 0;
    REFUSED(tocsin_isend(both->comm, &byte, 1, 0, 0, &request));
    REFUSED(tocsin_issend(both->comm, &byte, 1, 0, 0, &request));
    REFUSED(tocsin_irecv(both->comm, &byte, 1, 0, 0, &request));
    REFUSED(tocsin_imrecv(&message, &byte, 1, &request));
    REFUSED(tocsin_send_init(both->comm, &byte, 1, 0, 0, &request));
    REFUSED(tocsin_ssend_init(both->comm, &byte, 1, 0, 0, &request));
    REFUSED(tocsin_recv_init(both->comm, &byte, 1, 0, 0, &request));
    REFUSED(tocsin_ibarrier(both->comm, NULL, &request));
    REFUSED(tocsin_barrier_init(both->comm, NULL, &request));
    FAILS(TOCSIN_ERROR_THREAD, tocsin_wait(pending, NULL));
    FAILS(TOCSIN_ERROR_THREAD, tocsin_waitall(1, pending, NULL));
    FAILS(TOCSIN_ERROR_THREAD, tocsin_waitany(1, pending, &index, NULL));
    FAILS(TOCSIN_ERROR_THREAD, tocsin_wait_timeout(pending, 1, &done, NULL));
    FAILS(TOCSIN_ERROR_THREAD, tocsin_test(pending, &done, NULL));
    FAILS(TOCSIN_ERROR_THREAD, tocsin_cancel(*pending, &cancelled));
    FAILS(TOCSIN_ERROR_THREAD, tocsin_request_free(pending));
    FAILS(TOCSIN_ERROR_THREAD, tocsin_progress(both->comm));
    FAILS(TOCSIN_ERROR_THREAD, tocsin_comm_revoke(both->comm));
    FAILS(TOCSIN_ERROR_THREAD, tocsin_comm_free(&both->comm));
    FAILS(TOCSIN_ERROR_THREAD, tocsin_comm_statistics(both->comm, &statistics, sizeof statistics));
    OK(tocsin_comm_rank(both->comm, &rank));
    OK(tocsin_is_done(*pending, &done));
    CHECK(rank >= 0 && !done && both->comm != NULL && *pending != NULL);
    for (size_t i = 0; i < count; i++) {
        ((int32_t *)out)[i] = ((const int32_t *)left)[i] + ((const int32_t *)right)[i];
    }
}

static int meddled(tocsin_comm *comm, void *argument) {
    int32_t one = 1, sum = 0;
    int op = 0, size = 0, cancelled = 0;
    tocsin_request *request = NULL;
    struct both both = {comm, NULL};
    char byte = 0;
    (void)argument;
    OK(tocsin_comm_size(comm, &size));
    OK(tocsin_irecv(comm, &byte, 1, TOCSIN_ANY_SOURCE, 9, &both.pending));
    OK(tocsin_op_create(meddling, &both, 1, &op));
    OK(tocsin_iallreduce(comm, &one, &sum, 1, TOCSIN_INT32, op, NULL, &request));
    OK(tocsin_wait(&request, NULL));
    CHECK(sum == size);
    OK(tocsin_op_free(&op));
    OK(tocsin_cancel(both.pending, &cancelled));
    CHECK(cancelled);
    FAILS(TOCSIN_ERROR_CANCELLED, tocsin_wait(&both.pending, NULL));
    /* Who leaves sooner ends what the others may still receive. */
    OK(tocsin_barrier(comm, NULL));
    return 0;
}

int main(int argc, char **argv) {
    int ranks = argc > 1 ? atoi(argv[1]) : 2;

    OK(tocsin_threads_run(ranks, body, &ranks));
    OK(tocsin_threads_run(ranks, meddled, NULL));
    FAILS(TOCSIN_ERROR_USER, tocsin_threads_run(2, failing, NULL));
    CHECK(strstr(tocsin_last_error(), "rank 1") != NULL && strstr(tocsin_last_error(), "42") != NULL);
    FAILS(TOCSIN_ERROR_ARGUMENT, tocsin_threads_run(2, NULL, NULL));
    for (int wrong = -1; wrong < 2000; wrong = wrong < 0 ? 0 : wrong + 1025) {
        FAILS(TOCSIN_ERROR_ARGUMENT, tocsin_threads_run(wrong, body, &ranks));
        CHECK(strstr(tocsin_last_error(), "start 1 to 1024") != NULL);
    }
    printf("%d threads: %d failures\n", ranks, failures);
    return failures != 0;
}
