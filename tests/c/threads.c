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

/* Adds, and tries what an operator must not do with the communicator that is its context. */
static void meddling(void *context, const void *left, const void *right, void *out, size_t count) {
    tocsin_request *request = NULL;
    char byte = 0;
    FAILS(TOCSIN_ERROR_THREAD, tocsin_isend((tocsin_comm *)context, &byte, 1, 0, 0, &request));
    CHECK(request == NULL);
    for (size_t i = 0; i < count; i++) {
        ((int32_t *)out)[i] = ((const int32_t *)left)[i] + ((const int32_t *)right)[i];
    }
}

static int meddled(tocsin_comm *comm, void *argument) {
    int32_t one = 1, sum = 0;
    int op = 0, size = 0;
    tocsin_request *request = NULL;
    (void)argument;
    OK(tocsin_comm_size(comm, &size));
    OK(tocsin_op_create(meddling, comm, 1, &op));
    OK(tocsin_iallreduce(comm, &one, &sum, 1, TOCSIN_INT32, op, NULL, &request));
    OK(tocsin_wait(&request, NULL));
    CHECK(sum == size);
    OK(tocsin_op_free(&op));
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
