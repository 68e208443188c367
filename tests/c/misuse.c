/* Every wrong argument is an error with a text, never a crash. Runs alone, as a world of one rank. */
#include "check.h"

/* A call that must fail, and leave no handle in `request`, whatever stood there. */
#define CLEARS(call) \
    do { \
        request = (tocsin_request *)&byte; \
        CHECK((call) != TOCSIN_OK); \
        CHECK(request == NULL); \
        request = NULL; \
    } while (0)

int main(void) {
    tocsin_world *world = NULL;
    tocsin_comm *comm = NULL, *other = NULL;
    tocsin_request *request = NULL, *twice[2];
    tocsin_message *message = NULL;
    tocsin_statistics statistics;
    unsigned char byte = 0, in = 0;
    void *memory = NULL, *again;
    ptrdiff_t index;
    int number = 0, op = 0;

    /* Codes have texts, whatever the code. */
    for (number = -1; number < 40; number++) CHECK(strlen(tocsin_strerror(number)) > 0);
    CHECK(strcmp(tocsin_strerror(TOCSIN_OK), "success") == 0);
    CHECK(strcmp(tocsin_last_error(), "") == 0);

    FAILS(TOCSIN_ERROR_ARGUMENT, tocsin_init(NULL));
    CHECK(strstr(tocsin_last_error(), "tocsin_init") != NULL && strstr(tocsin_last_error(), "world") != NULL);
    FAILS(TOCSIN_ERROR_ARGUMENT, tocsin_world_rank(NULL, &number));
    FAILS(TOCSIN_ERROR_ARGUMENT, tocsin_world_size(NULL, &number));
    FAILS(TOCSIN_ERROR_ARGUMENT, tocsin_world_comm(NULL, &comm));
    FAILS(TOCSIN_ERROR_ARGUMENT, tocsin_finalize(NULL));
    OK(tocsin_finalize(&world));

    OK(tocsin_init(&world));
    FAILS(TOCSIN_ERROR_ARGUMENT, tocsin_world_rank(world, NULL));
    FAILS(TOCSIN_ERROR_ARGUMENT, tocsin_world_comm(world, NULL));
    OK(tocsin_world_comm(world, &comm));

    FAILS(TOCSIN_ERROR_ARGUMENT, tocsin_comm_rank(NULL, &number));
    FAILS(TOCSIN_ERROR_ARGUMENT, tocsin_comm_rank(comm, NULL));
    FAILS(TOCSIN_ERROR_ARGUMENT, tocsin_comm_size(NULL, NULL));
    FAILS(TOCSIN_ERROR_ARGUMENT, tocsin_comm_dup(NULL, &other));
    FAILS(TOCSIN_ERROR_ARGUMENT, tocsin_comm_dup(comm, NULL));
    FAILS(TOCSIN_ERROR_ARGUMENT, tocsin_comm_split(comm, -7, 0, &other));
    FAILS(TOCSIN_ERROR_ARGUMENT, tocsin_comm_revoke(NULL));
    FAILS(TOCSIN_ERROR_ARGUMENT, tocsin_progress(NULL));
    FAILS(TOCSIN_ERROR_ARGUMENT, tocsin_abort(NULL, 3));
    FAILS(TOCSIN_ERROR_ARGUMENT, tocsin_comm_free(NULL));
    FAILS(TOCSIN_ERROR_ARGUMENT, tocsin_comm_statistics(comm, NULL, 8));
    CHECK(strcmp(tocsin_comm_backend(NULL), "") == 0);

    /* A program compiled with a smaller structure. */
    memset(&statistics, 0xff, sizeof statistics);
    OK(tocsin_comm_statistics(comm, &statistics, 8));
    CHECK(statistics.interrupts != UINT64_MAX && statistics.stolen_ns == UINT64_MAX);

    /* Whatever keeps an operation from being started, there is no handle to wait for. */
    CLEARS(tocsin_isend(NULL, &byte, 1, 0, 0, &request));
    CLEARS(tocsin_isend(comm, NULL, 1, 0, 0, &request));
    CLEARS(tocsin_issend(comm, &byte, 1, -1, 0, &request));
    CLEARS(tocsin_irecv(comm, &byte, 1, -2, 0, &request));
    CLEARS(tocsin_irecv(comm, &byte, 1, 0, -2, &request));
    CLEARS(tocsin_imrecv(&message, &in, 1, &request));
    CLEARS(tocsin_send_init(NULL, &byte, 1, 0, 0, &request));
    CLEARS(tocsin_ssend_init(comm, &byte, 1, -1, 0, &request));
    CLEARS(tocsin_recv_init(comm, NULL, 1, 0, 0, &request));
    CLEARS(tocsin_ibcast(comm, &byte, 1, -1, NULL, &request));
    CLEARS(tocsin_ibarrier(NULL, NULL, &request));
    CLEARS(tocsin_iallreduce(comm, &byte, &in, 1, 0, TOCSIN_SUM, NULL, &request));
    CLEARS(tocsin_bcast_init(comm, NULL, 1, 0, NULL, &request));

    FAILS(TOCSIN_ERROR_ARGUMENT, tocsin_isend(NULL, &byte, 1, 0, 0, &request));
    FAILS(TOCSIN_ERROR_ARGUMENT, tocsin_isend(comm, NULL, 1, 0, 0, &request));
    FAILS(TOCSIN_ERROR_ARGUMENT, tocsin_isend(comm, &byte, 1, 0, 0, NULL));
    FAILS(TOCSIN_ERROR_ARGUMENT, tocsin_isend(comm, &byte, SIZE_MAX, 0, 0, &request));
    FAILS(TOCSIN_ERROR_RANK, tocsin_isend(comm, &byte, 1, 1, 0, &request));
    CHECK(strstr(tocsin_last_error(), "tocsin_isend: rank 1 is out of range") == tocsin_last_error());
    FAILS(TOCSIN_ERROR_RANK, tocsin_isend(comm, &byte, 1, -1, 0, &request));
    FAILS(TOCSIN_ERROR_TAG, tocsin_isend(comm, &byte, 1, 0, -1, &request));
    FAILS(TOCSIN_ERROR_RANK, tocsin_issend(comm, &byte, 1, 99, 0, &request));
    FAILS(TOCSIN_ERROR_RANK, tocsin_irecv(comm, &byte, 1, 1, 0, &request));
    FAILS(TOCSIN_ERROR_RANK, tocsin_irecv(comm, &byte, 1, -2, 0, &request));
    FAILS(TOCSIN_ERROR_TAG, tocsin_irecv(comm, &byte, 1, 0, -2, &request));
    FAILS(TOCSIN_ERROR_ARGUMENT, tocsin_irecv(comm, NULL, 1, 0, 0, &request));
    FAILS(TOCSIN_ERROR_RANK, tocsin_sendrecv(comm, &byte, 1, 5, 0, &in, 1, 0, 0, NULL));
    FAILS(TOCSIN_ERROR_RANK, tocsin_sendrecv_replace(comm, &byte, 1, 5, 0, 0, 0, NULL));
    FAILS(TOCSIN_ERROR_TAG, tocsin_sendrecv_replace(comm, &byte, 1, 0, -2, 0, 0, NULL));
    FAILS(TOCSIN_ERROR_RANK, tocsin_iprobe(comm, 5, 0, &number, NULL));
    FAILS(TOCSIN_ERROR_ARGUMENT, tocsin_iprobe(comm, 0, 0, NULL, NULL));
    FAILS(TOCSIN_ERROR_ARGUMENT, tocsin_improbe(comm, 0, 0, NULL, NULL));
    FAILS(TOCSIN_ERROR_ARGUMENT, tocsin_imrecv(&message, &in, 1, &request));
    FAILS(TOCSIN_ERROR_ARGUMENT, tocsin_mrecv(NULL, &in, 1, NULL));
    CHECK(request == NULL);

    FAILS(TOCSIN_ERROR_RANK, tocsin_ibcast(comm, &byte, 1, 1, NULL, &request));
    FAILS(TOCSIN_ERROR_RANK, tocsin_ibcast(comm, &byte, 1, -1, NULL, &request));
    FAILS(TOCSIN_ERROR_ALGORITHM, tocsin_ibcast(comm, &byte, 1, 0, "no-such", &request));
    FAILS(TOCSIN_ERROR_ARGUMENT, tocsin_ibcast(comm, &byte, 1, 0, "\xff\xfe", &request));
    FAILS(TOCSIN_ERROR_OPERATOR, tocsin_iallreduce(comm, &byte, &in, 1, 0, TOCSIN_SUM, NULL, &request));
    FAILS(TOCSIN_ERROR_OPERATOR, tocsin_iallreduce(comm, &byte, &in, 1, 999, TOCSIN_SUM, NULL, &request));
    FAILS(TOCSIN_ERROR_OPERATOR, tocsin_iallreduce(comm, &byte, &in, 1, -1, TOCSIN_SUM, NULL, &request));
    FAILS(TOCSIN_ERROR_OPERATOR, tocsin_iallreduce(comm, &byte, &in, 1, TOCSIN_INT8, 0, NULL, &request));
    FAILS(TOCSIN_ERROR_OPERATOR, tocsin_iallreduce(comm, &byte, &in, 1, TOCSIN_INT8, 70000, NULL, &request));
    FAILS(TOCSIN_ERROR_OPERATOR, tocsin_iallreduce(comm, &byte, &in, 1, TOCSIN_BYTE, TOCSIN_SUM, NULL, &request));
    FAILS(TOCSIN_ERROR_ARGUMENT, tocsin_iallreduce(comm, &byte, NULL, 1, TOCSIN_INT8, TOCSIN_SUM, NULL, &request));
    FAILS(TOCSIN_ERROR_ARGUMENT,
          tocsin_iallreduce(comm, &byte, &in, SIZE_MAX / 4, TOCSIN_INT64, TOCSIN_SUM, NULL, &request));
    FAILS(TOCSIN_ERROR_ARGUMENT, tocsin_ialltoall(comm, NULL, &in, 1, NULL, &request));
    FAILS(TOCSIN_ERROR_ARGUMENT, tocsin_ibarrier(NULL, NULL, &request));
    FAILS(TOCSIN_ERROR_ARGUMENT, tocsin_ibarrier(comm, NULL, NULL));
    CHECK(request == NULL);

    CHECK(tocsin_type_opaque(0) == 0 && tocsin_type_opaque(SIZE_MAX) == 0 && tocsin_type_opaque(12) != 0);
    FAILS(TOCSIN_ERROR_ARGUMENT, tocsin_op_create(NULL, NULL, 1, &op));
    FAILS(TOCSIN_ERROR_ARGUMENT, tocsin_op_free(NULL));
    int built_in = TOCSIN_SUM;
    FAILS(TOCSIN_ERROR_OPERATOR, tocsin_op_free(&built_in));
    CHECK(built_in == TOCSIN_SUM && strstr(tocsin_last_error(), "built-in") != NULL);
    OK(tocsin_op_free(&op));
    op = 123456;
    FAILS(TOCSIN_ERROR_OPERATOR, tocsin_op_free(&op));

    /* Requests. */
    OK(tocsin_wait(&request, NULL));
    OK(tocsin_test(&request, &number, NULL));
    CHECK(number == 1);
    FAILS(TOCSIN_ERROR_ARGUMENT, tocsin_wait(NULL, NULL));
    FAILS(TOCSIN_ERROR_ARGUMENT, tocsin_test(&request, NULL, NULL));
    FAILS(TOCSIN_ERROR_ARGUMENT, tocsin_cancel(NULL, &number));
    FAILS(TOCSIN_ERROR_ARGUMENT, tocsin_on_complete(NULL, NULL, NULL));
    FAILS(TOCSIN_ERROR_ARGUMENT, tocsin_waitall(3, NULL, NULL));
    FAILS(TOCSIN_ERROR_ARGUMENT, tocsin_waitany(3, NULL, &index, NULL));
    OK(tocsin_waitall(0, NULL, NULL));
    FAILS(TOCSIN_ERROR_ARGUMENT, tocsin_testall(3, NULL, &number, NULL));
    FAILS(TOCSIN_ERROR_ARGUMENT, tocsin_testall(0, NULL, NULL, NULL));
    FAILS(TOCSIN_ERROR_ARGUMENT, tocsin_testany(0, NULL, &number, NULL, NULL));
    FAILS(TOCSIN_ERROR_ARGUMENT, tocsin_waitsome(1, &request, &index, NULL, NULL));
    FAILS(TOCSIN_ERROR_ARGUMENT, tocsin_testsome(0, NULL, NULL, NULL, NULL));
    OK(tocsin_testsome(0, NULL, &index, NULL, NULL));
    CHECK(index == -1);
    FAILS(TOCSIN_ERROR_RANK, tocsin_probe(comm, 1000, 0, NULL));
    OK(tocsin_request_free(&request));
    OK(tocsin_irecv(comm, &in, 1, 0, 1, &request));
    twice[0] = twice[1] = request;
    FAILS(TOCSIN_ERROR_ARGUMENT, tocsin_waitall(2, twice, NULL));
    FAILS(TOCSIN_ERROR_ARGUMENT, tocsin_on_complete(request, NULL, NULL));
    byte = 9;
    OK(tocsin_isend(comm, &byte, 1, 0, 1, &twice[0]));
    twice[1] = request;
    request = NULL;
    OK(tocsin_waitall(2, twice, NULL));
    CHECK(in == 9);

    OK(tocsin_comm_revoke(comm));
    FAILS(TOCSIN_ERROR_REVOKED, tocsin_isend(comm, &byte, 1, 0, 0, &request));
    FAILS(TOCSIN_ERROR_ARGUMENT, tocsin_alloc(NULL, 8, &memory));
    FAILS(TOCSIN_ERROR_ARGUMENT, tocsin_alloc(comm, 8, NULL));
    FAILS(TOCSIN_ERROR_SYSTEM, tocsin_alloc(comm, SIZE_MAX, &memory));
    CHECK(memory == NULL && strstr(tocsin_last_error(), "TOCSIN_HEAP") != NULL);
    FAILS(TOCSIN_ERROR_ARGUMENT, tocsin_free(NULL));
    OK(tocsin_free(&memory));
    memory = &byte;
    FAILS(TOCSIN_ERROR_ARGUMENT, tocsin_free(&memory));
    CHECK(memory == &byte && strstr(tocsin_last_error(), "tocsin_alloc") != NULL);
    OK(tocsin_alloc(comm, 0, &memory));
    again = memory;
    OK(tocsin_free(&memory));
    FAILS(TOCSIN_ERROR_ARGUMENT, tocsin_free(&again));
    OK(tocsin_alloc(comm, 100, &memory));

    OK(tocsin_comm_free(&comm));
    OK(tocsin_comm_free(&comm));
    OK(tocsin_finalize(&world));
    /* Its buffers outlive a world. */
    memset(memory, 1, 100);
    OK(tocsin_free(&memory));
    printf("misuse: %d failures\n", failures);
    return failures != 0;
}
