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

int main(int argc, char **argv) {
    int ranks = argc > 1 ? atoi(argv[1]) : 2;

    OK(tocsin_threads_run(ranks, body, &ranks));
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
