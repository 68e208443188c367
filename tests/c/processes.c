/* Ranks as processes: started by a launcher, or alone. */
#include "exchange.h"

static void completed(void *argument, const tocsin_status *status) {
    __atomic_store_n((int *)argument, status->error == TOCSIN_OK ? 1 : -1, __ATOMIC_RELEASE);
}

int main(void) {
    tocsin_world *world = NULL;
    tocsin_comm *comm = NULL;
    tocsin_request *request = NULL;
    tocsin_statistics statistics;
    int rank = -1, size = -1, called = 0, answer = 0;
    long spins = 0;

    OK(tocsin_init(&world));
    OK(tocsin_world_rank(world, &rank));
    OK(tocsin_world_size(world, &size));
    OK(tocsin_world_comm(world, &comm));
    CHECK(strlen(tocsin_version()) > 0);
    CHECK(strlen(tocsin_comm_backend(comm)) > 0);
    exchange(comm);

    OK(tocsin_ibarrier(comm, NULL, &request));
    OK(tocsin_on_complete(request, completed, &called));
    OK(tocsin_wait(&request, NULL));
    /* The callback may run on another thread a moment later. */
    while (answer == 0 && spins++ < 2000000000L) answer = __atomic_load_n(&called, __ATOMIC_ACQUIRE);
    CHECK(answer == 1);

    memset(&statistics, 0xff, sizeof statistics);
    OK(tocsin_comm_statistics(comm, &statistics, sizeof statistics));
    CHECK(size == 1 || (statistics.packets_sent > 0 && statistics.bytes_received > 0));
    CHECK(statistics.packets_sent != UINT64_MAX);

    OK(tocsin_finalize(&world));
    CHECK(world == NULL);
    OK(tocsin_comm_free(&comm));
    printf("rank %d of %d: %d failures\n", rank, size, failures);
    return failures != 0;
}
