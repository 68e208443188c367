/* The collectives beyond the four of exchange.h, checked, on any communicator. Blocks of rank `r` have `r % 3` parts. */
#ifndef COLLECTIVES_H
#define COLLECTIVES_H

/* Lengths and offsets of blocks, in reverse order with gaps of 5 bytes. Freed by the caller. */
static size_t *lengths_of(int size, size_t part) {
    size_t *lengths = (size_t *)allocate((size_t)size * sizeof(size_t));
    int r;
    for (r = 0; r < size; r++) lengths[r] = (size_t)(r % 3) * part;
    return lengths;
}

static size_t *offsets_of(int size, const size_t *lengths) {
    size_t *offsets = (size_t *)allocate((size_t)size * sizeof(size_t)), next = 5;
    int r;
    for (r = size - 1; r >= 0; r--) {
        offsets[r] = next;
        next += lengths[r] + 5;
    }
    return offsets;
}

static void fill(unsigned char *at, int source, int dest, size_t bytes) {
    size_t i;
    for (i = 0; i < bytes; i++) at[i] = pattern(source, dest, i);
}

static size_t differs(const unsigned char *at, int source, int dest, size_t bytes) {
    size_t i, wrong = 0;
    for (i = 0; i < bytes; i++) wrong += at[i] != pattern(source, dest, i);
    return wrong;
}

static void scatter_and_gather(tocsin_comm *comm, int rank, int size, size_t bytes) {
    unsigned char *all = allocate(bytes * (size_t)size), *mine = allocate(bytes);
    tocsin_request *request = NULL;
    int root, r;

    for (root = 0; root < size; root++) {
        const char *algorithm = root % 2 ? "linear" : "binomial";
        size_t wrong = 0;
        for (r = 0; r < size; r++) fill(all + (size_t)r * bytes, root, r, bytes);
        memset(mine, 0, bytes);
        OK(tocsin_iscatter(comm, rank == root ? all : NULL, mine, bytes, root, algorithm, &request));
        wait_for(request);
        CHECK(differs(mine, root, rank, bytes) == 0);

        fill(mine, rank, root, bytes);
        memset(all, 0, bytes * (size_t)size);
        /* The root in place. */
        if (rank == root) memcpy(all + (size_t)rank * bytes, mine, bytes);
        OK(tocsin_igather(comm, rank == root ? NULL : mine, all, bytes, root, algorithm, &request));
        wait_for(request);
        for (r = 0; r < size && rank == root; r++) wrong += differs(all + (size_t)r * bytes, r, root, bytes);
        CHECK(wrong == 0);
    }
    fill(mine, rank, 0, bytes);
    OK(tocsin_iallgather(comm, mine, all, bytes, "bruck", &request));
    wait_for(request);
    for (r = 0; r < size; r++) CHECK(differs(all + (size_t)r * bytes, r, 0, bytes) == 0);
    free(all);
    free(mine);
}

static void displaced(tocsin_comm *comm, int rank, int size, size_t part) {
    size_t *lengths = lengths_of(size, part), *offsets = offsets_of(size, lengths);
    size_t own = lengths[rank], whole = offsets[0] + lengths[0] + 5, i, wrong = 0;
    unsigned char *all = allocate(whole), *mine = allocate(own);
    tocsin_request *request = NULL;
    int r, root = size - 1;

    memset(all, 0xa5, whole);
    for (r = 0; r < size; r++) fill(all + offsets[r], root, r, lengths[r]);
    OK(tocsin_iscatterv(comm, all, lengths, offsets, mine, own, root, NULL, &request));
    wait_for(request);
    CHECK(differs(mine, root, rank, own) == 0);

    memset(all, 0xa5, whole);
    fill(mine, rank, root, own);
    OK(tocsin_igatherv(comm, mine, own, all, lengths, offsets, root, NULL, &request));
    wait_for(request);
    for (r = 0; r < size && rank == root; r++) wrong += differs(all + offsets[r], r, root, lengths[r]);
    CHECK(wrong == 0);

    memset(all, 0xa5, whole);
    fill(mine, rank, 0, own);
    OK(tocsin_iallgatherv(comm, mine, all, lengths, offsets, "ring", &request));
    wait_for(request);
    for (r = 0; r < size; r++) {
        CHECK(differs(all + offsets[r], r, 0, lengths[r]) == 0);
        for (i = 0; i < 5; i++) wrong += all[offsets[r] - 5 + i] != 0xa5;
    }
    CHECK(wrong == 0);
    /* Packed, in place. */
    for (r = 0, i = 0; r < rank; r++) i += lengths[r];
    memset(all, 0, whole);
    fill(all + i, rank, 1, own);
    OK(tocsin_iallgatherv(comm, NULL, all, lengths, NULL, NULL, &request));
    wait_for(request);
    for (r = 0, i = 0; r < size; i += lengths[r++]) CHECK(differs(all + i, r, 1, lengths[r]) == 0);
    free(all);
    free(mine);
    free(lengths);
    free(offsets);
}

/* Between ranks a and b, (a + b) % 3 parts. */
static void exchange_of_blocks(tocsin_comm *comm, int rank, int size, size_t part) {
    size_t n = (size_t)size, *lengths = (size_t *)allocate(n * sizeof(size_t));
    int *types = (int *)allocate(n * sizeof(int));
    size_t *counts = (size_t *)allocate(n * sizeof(size_t)), *offsets, whole;
    unsigned char *out, *in;
    tocsin_request *request = NULL;
    int r;

    for (r = 0; r < size; r++) {
        lengths[r] = (size_t)((rank + r) % 3) * part * 8;
        /* The same bytes as doubles, or as bytes. */
        types[r] = r % 2 ? TOCSIN_DOUBLE : TOCSIN_BYTE;
        counts[r] = r % 2 ? lengths[r] / 8 : lengths[r];
    }
    offsets = offsets_of(size, lengths);
    whole = offsets[0] + lengths[0];
    out = allocate(whole);
    in = allocate(whole);
    for (r = 0; r < size; r++) fill(out + offsets[r], rank, r, lengths[r]);
    memset(in, 0, whole);
    OK(tocsin_ialltoallv(comm, out, lengths, offsets, in, lengths, offsets, "pairwise", &request));
    wait_for(request);
    for (r = 0; r < size; r++) CHECK(differs(in + offsets[r], r, rank, lengths[r]) == 0);

    memset(in, 0, whole);
    OK(tocsin_ialltoallw(comm, out, counts, offsets, types, in, counts, offsets, types, NULL, &request));
    wait_for(request);
    for (r = 0; r < size; r++) CHECK(differs(in + offsets[r], r, rank, lengths[r]) == 0);

    /* In place. */
    OK(tocsin_ialltoallv(comm, NULL, NULL, NULL, out, lengths, offsets, NULL, &request));
    wait_for(request);
    for (r = 0; r < size; r++) CHECK(differs(out + offsets[r], r, rank, lengths[r]) == 0);
    free(lengths);
    free(types);
    free(counts);
    free(offsets);
    free(out);
    free(in);
}

/* One buffer, in which what is received stands between what is sent. */
static void between_each_other(tocsin_comm *comm, int rank, int size, size_t bytes) {
    size_t n = (size_t)size, *lengths = (size_t *)allocate(n * sizeof(size_t));
    size_t *sent = (size_t *)allocate(n * sizeof(size_t)), *received = (size_t *)allocate(n * sizeof(size_t));
    unsigned char *all = allocate(2 * n * bytes), *own;
    const char *pairwise[] = {NULL, "pairwise", "linear"}, *ring[] = {NULL, "ring", "bruck"};
    tocsin_request *request = NULL;
    int r, way, root = size - 1;

    for (r = 0; r < size; r++) {
        lengths[r] = bytes;
        sent[r] = 2 * (size_t)r * bytes;
        received[r] = sent[r] + bytes;
    }
    /* Between the first block that is received and the second. */
    own = all + 2 * bytes;
#define CLEAR() memset(all, 0xa5, 2 * n * bytes)
#define STAYS() \
    for (r = 0; r < size; r++) CHECK(differs(all + sent[r], rank, r, bytes) == 0)
#define SEND_ALL() \
    for (r = 0; r < size; r++) fill(all + sent[r], rank, r, bytes)
#define FROM_ALL(to) \
    for (r = 0; r < size; r++) CHECK(differs(all + received[r], r, to, bytes) == 0)
    for (way = 0; way < 3 && size > 1; way++) {
        CLEAR();
        SEND_ALL();
        OK(tocsin_ialltoallv(comm, all, lengths, sent, all, lengths, received, pairwise[way], &request));
        wait_for(request);
        STAYS();
        FROM_ALL(rank);
        CLEAR();
        fill(own, rank, 1, bytes);
        OK(tocsin_iallgatherv(comm, own, all, lengths, received, ring[way], &request));
        wait_for(request);
        CHECK(differs(own, rank, 1, bytes) == 0);
        FROM_ALL(1);
    }
    if (size > 1) {
        CLEAR();
        fill(own, rank, 2, bytes);
        OK(tocsin_igatherv(comm, own, bytes, all, lengths, received, root, NULL, &request));
        wait_for(request);
        CHECK(differs(own, rank, 2, bytes) == 0);
        if (rank == root) { FROM_ALL(2); }
        CLEAR();
        SEND_ALL();
        OK(tocsin_iscatterv(comm, all, lengths, sent, all + bytes, bytes, root, NULL, &request));
        wait_for(request);
        STAYS();
        CHECK(differs(all + bytes, root, rank, bytes) == 0);
        /* One byte less between them. */
        if (bytes > 0) received[0]--;
        if (bytes > 0) FAILS(TOCSIN_ERROR_ARGUMENT, tocsin_ialltoallv(comm, all, lengths, sent, all, lengths, received, NULL, &request));
    }
#undef CLEAR
#undef STAYS
#undef SEND_ALL
#undef FROM_ALL
    free(lengths);
    free(sent);
    free(received);
    free(all);
}

/* What is sent stands between the pieces of what is received. */
static void between_columns(tocsin_comm *comm, int rank, int size, size_t piece) {
    size_t n = (size_t)size, row = 2 * n * piece;
    unsigned char *all = allocate(2 * row), *own = all + n * piece, *one = allocate(2 * piece);
    tocsin_strided *columns = (tocsin_strided *)allocate(n * sizeof(tocsin_strided));
    const char *algorithms[] = {NULL, "linear", "ring"};
    tocsin_request *request = NULL;
    int r, way;

    for (r = 0; r < size; r++) {
        tocsin_strided column = {(size_t)r * piece, 2, piece, row};
        columns[r] = column;
    }
    for (way = 0; way < 3 && size > 1; way++) {
        memset(all, 0xa5, 2 * row);
        fill(own, rank, 3, 2 * piece);
        OK(tocsin_iallgatherv_strided(comm, own, all, columns, algorithms[way], &request));
        wait_for(request);
        CHECK(differs(own, rank, 3, 2 * piece) == 0);
        for (r = 0; r < size; r++) {
            memcpy(one, all + (size_t)r * piece, piece);
            memcpy(one + piece, all + (size_t)r * piece + row, piece);
            CHECK(differs(one, r, 3, 2 * piece) == 0);
        }
    }
    free(all);
    free(one);
    free(columns);
}

/* A matrix of bytes at `root`, a column of which is each rank's: scattered, gathered and allgathered, at once and prepared, and in place. */
static void columns_of(tocsin_comm *comm, int rank, int size, size_t rows, size_t width, int root) {
    size_t n = (size_t)size, whole = n * rows * width, bytes = rows * width, i, wrong = 0;
    tocsin_strided *columns = (tocsin_strided *)allocate(n * sizeof(tocsin_strided));
    unsigned char *matrix = allocate(whole), *came = allocate(whole), *own = allocate(bytes);
    tocsin_request *request = NULL;
    int r, run;

    for (r = 0; r < size; r++) {
        tocsin_strided column = {(size_t)r * width, rows, width, n * width};
        columns[r] = column;
        fill(own, root, r, bytes);
        for (i = 0; i < rows; i++) memcpy(matrix + i * n * width + column.offset, own + i * width, width);
    }
    memset(own, 0, bytes);
    OK(tocsin_iscatterv_strided(comm, rank == root ? matrix : NULL, rank == root ? columns : NULL, own, bytes, root,
                                NULL, &request));
    wait_for(request);
    CHECK(differs(own, root, rank, bytes) == 0);

    request = NULL;
    OK(tocsin_scatterv_strided_init(comm, matrix, columns, rank == root ? NULL : own, bytes, root, "linear", &request));
    for (run = 0; run < 2; run++) {
        if (rank != root) memset(own, 0, bytes);
        OK(tocsin_start(request));
        OK(tocsin_wait(&request, NULL));
        CHECK(differs(own, root, rank, bytes) == 0);
    }
    OK(tocsin_request_free(&request));

    memset(came, 0, whole);
    OK(tocsin_igatherv_strided(comm, own, bytes, rank == root ? came : NULL, rank == root ? columns : NULL, root, NULL,
                               &request));
    wait_for(request);
    CHECK(rank != root || memcmp(came, matrix, whole) == 0);

    request = NULL;
    OK(tocsin_gatherv_strided_init(comm, own, bytes, came, columns, root, "linear", &request));
    for (run = 0; run < 2; run++) {
        memset(came, 0, whole);
        OK(tocsin_start(request));
        OK(tocsin_wait(&request, NULL));
        CHECK(rank != root || memcmp(came, matrix, whole) == 0);
    }
    OK(tocsin_request_free(&request));

    memset(came, 0, whole);
    OK(tocsin_iallgatherv_strided(comm, own, came, columns, NULL, &request));
    wait_for(request);
    CHECK(memcmp(came, matrix, whole) == 0);

    /* In place, again and again: each rank's column stands there already, and nobody else's. */
    request = NULL;
    OK(tocsin_allgatherv_strided_init(comm, NULL, came, columns, "ring", &request));
    for (run = 0; run < 2; run++) {
        for (r = 0; r < size; r++)
            for (i = 0; i < rows && r != rank; i++) memset(came + i * n * width + columns[r].offset, 0, width);
        OK(tocsin_start(request));
        OK(tocsin_wait(&request, NULL));
        wrong += memcmp(came, matrix, whole) != 0;
    }
    OK(tocsin_request_free(&request));
    CHECK(wrong == 0);

    /* Refused at the root alone, or everywhere: what is no list, and blocks that overlap. */
    if (rank == root) {
        FAILS(TOCSIN_ERROR_ARGUMENT, tocsin_iscatterv_strided(comm, matrix, NULL, own, bytes, root, NULL, &request));
        FAILS(TOCSIN_ERROR_ARGUMENT, tocsin_igatherv_strided(comm, own, bytes, came, NULL, root, NULL, &request));
    }
    FAILS(TOCSIN_ERROR_ARGUMENT, tocsin_iallgatherv_strided(comm, own, came, NULL, NULL, &request));
    if (size > 1 && bytes > 0) {
        columns[rank].offset = columns[(rank + 1) % size].offset;
        FAILS(TOCSIN_ERROR_ARGUMENT, tocsin_iallgatherv_strided(comm, own, came, columns, NULL, &request));
        CHECK(strstr(tocsin_last_error(), "overlap") != NULL);
    }
    free(columns);
    free(matrix);
    free(came);
    free(own);
}

/* A matrix of bytes, a column of which is for each rank, comes out by rows: blocks of pieces between those of the others. */
static void transposed(tocsin_comm *comm, int rank, int size, size_t rows, size_t width, const char *algorithm) {
    size_t n = (size_t)size, whole = n * rows * width, i, wrong = 0;
    tocsin_strided *columns = (tocsin_strided *)allocate(n * sizeof(tocsin_strided));
    tocsin_strided *runs = (tocsin_strided *)allocate(n * sizeof(tocsin_strided));
    unsigned char *matrix = allocate(whole), *blocks = allocate(whole), *one = allocate(rows * width);
    tocsin_request *request = NULL;
    int r, run;

    for (r = 0; r < size; r++) {
        tocsin_strided column = {(size_t)r * width, rows, width, n * width};
        tocsin_strided single = {(size_t)r * rows * width, 1, rows * width, 0};
        columns[r] = column;
        runs[r] = single;
        fill(one, rank, r, rows * width);
        for (i = 0; i < rows; i++) memcpy(matrix + i * n * width + column.offset, one + i * width, width);
    }
    memset(blocks, 0, whole);
    OK(tocsin_ialltoallw_strided(comm, matrix, columns, blocks, runs, algorithm, &request));
    wait_for(request);
    for (r = 0; r < size; r++) CHECK(differs(blocks + runs[r].offset, r, rank, rows * width) == 0);

    /* And back, as often as one likes; what comes back is what was sent. */
    request = NULL;
    OK(tocsin_alltoallw_strided_init(comm, blocks, runs, matrix, columns, algorithm, &request));
    for (run = 0; run < 3; run++) {
        memset(matrix, 0, whole);
        OK(tocsin_start(request));
        OK(tocsin_wait(&request, NULL));
        for (r = 0; r < size; r++) {
            fill(one, rank, r, rows * width);
            for (i = 0; i < rows; i++)
                wrong += memcmp(matrix + i * n * width + columns[r].offset, one + i * width, width) != 0;
        }
    }
    OK(tocsin_request_free(&request));
    CHECK(wrong == 0);

    /* In place, between columns. */
    OK(tocsin_ialltoallw_strided(comm, NULL, NULL, matrix, columns, algorithm, &request));
    wait_for(request);
    for (r = 0; r < size; r++) {
        fill(one, r, rank, rows * width);
        for (i = 0; i < rows; i++)
            wrong += memcmp(matrix + i * n * width + columns[r].offset, one + i * width, width) != 0;
    }
    CHECK(wrong == 0);

    /* Refused: pieces that overlap each other, blocks that do, and what is no list. */
    if (rows > 1 && width > 1) {
        columns[rank].stride = width - 1;
        FAILS(TOCSIN_ERROR_ARGUMENT,
              tocsin_ialltoallw_strided(comm, NULL, NULL, matrix, columns, algorithm, &request));
        CHECK(strstr(tocsin_last_error(), "stride") != NULL);
        columns[rank].stride = n * width;
    }
    if (size > 1 && rows * width > 0) {
        columns[rank].offset = columns[(rank + 1) % size].offset;
        FAILS(TOCSIN_ERROR_ARGUMENT,
              tocsin_ialltoallw_strided(comm, NULL, NULL, matrix, columns, algorithm, &request));
        CHECK(strstr(tocsin_last_error(), "overlap") != NULL);
    }
    columns[rank].count = SIZE_MAX;
    FAILS(TOCSIN_ERROR_ARGUMENT, tocsin_ialltoallw_strided(comm, NULL, NULL, matrix, columns, NULL, &request));
    FAILS(TOCSIN_ERROR_ARGUMENT, tocsin_ialltoallw_strided(comm, NULL, NULL, matrix, NULL, NULL, &request));
    free(columns);
    free(runs);
    free(matrix);
    free(blocks);
    free(one);
}

/* Rank r contributes (r + 1) * (i + 1). */
static int64_t sum_of(int ranks, size_t i) {
    return (int64_t)ranks * (ranks + 1) / 2 * ((int64_t)i + 1);
}

static void reductions(tocsin_comm *comm, int rank, int size, size_t each) {
    size_t count = each * (size_t)size, i, wrong = 0, start = 0, total = 0;
    size_t *counts = lengths_of(size, each);
    int64_t *data = (int64_t *)allocate(count * 2 * sizeof(int64_t));
    int64_t *result = (int64_t *)allocate(count * 2 * sizeof(int64_t));
    tocsin_request *request = NULL;
    int r, root;

    for (i = 0; i < count * 2; i++) data[i] = (rank + 1) * ((int64_t)i + 1);
    for (root = 0; root < size; root++) {
        OK(tocsin_ireduce(comm, data, rank == root ? result : NULL, count, TOCSIN_INT64, TOCSIN_SUM, root, NULL,
                          &request));
        wait_for(request);
        for (i = 0; i < count && rank == root; i++) wrong += result[i] != sum_of(size, i);
    }
    CHECK(wrong == 0);

    OK(tocsin_ireduce_scatter_block(comm, data, result, each, TOCSIN_INT64, TOCSIN_SUM, NULL, &request));
    wait_for(request);
    for (i = 0; i < each; i++) wrong += result[i] != sum_of(size, (size_t)rank * each + i);
    CHECK(wrong == 0);

    for (r = 0; r < size; r++) {
        if (r < rank) start += counts[r];
        total += counts[r];
    }
    /* At most 2 * each elements a rank. In place. */
    memcpy(result, data, total * sizeof(int64_t));
    OK(tocsin_ireduce_scatter(comm, NULL, result, counts, TOCSIN_INT64, TOCSIN_SUM, NULL, &request));
    wait_for(request);
    for (i = 0; i < counts[rank]; i++) wrong += result[i] != sum_of(size, start + i);
    CHECK(wrong == 0);

    OK(tocsin_iscan(comm, data, result, count, TOCSIN_INT64, TOCSIN_SUM, "chain", &request));
    wait_for(request);
    for (i = 0; i < count; i++) wrong += result[i] != sum_of(rank + 1, i);
    CHECK(wrong == 0);
    for (i = 0; i < count; i++) result[i] = -7;
    OK(tocsin_iexscan(comm, data, result, count, TOCSIN_INT64, TOCSIN_SUM, NULL, &request));
    wait_for(request);
    for (i = 0; i < count; i++) wrong += result[i] != (rank == 0 ? -7 : sum_of(rank, i));
    CHECK(wrong == 0);
    /* Rank 0 need not have anything there. */
    OK(tocsin_iexscan(comm, data, rank == 0 ? NULL : result, count, TOCSIN_INT64, TOCSIN_SUM, NULL, &request));
    wait_for(request);
    for (i = 0; i < count; i++) wrong += rank > 0 && result[i] != sum_of(rank, i);
    CHECK(wrong == 0);
    free(counts);
    free(data);
    free(result);
}

/* What the layers below refuse, with a text. */
static void refused(tocsin_comm *comm, int rank, int size) {
    size_t *lengths = lengths_of(size, 8), *offsets = (size_t *)allocate((size_t)size * sizeof(size_t));
    unsigned char *memory = allocate((size_t)size * 64);
    tocsin_request *request = NULL;
    int other = (rank + 1) % size, r;

    for (r = 0; r < size; r++) offsets[r] = 0;
    FAILS(TOCSIN_ERROR_RANK, tocsin_iscatter(comm, memory, memory + 32, 1, size, NULL, &request));
    FAILS(TOCSIN_ERROR_RANK, tocsin_igather(comm, memory, memory + 32, 1, -1, NULL, &request));
    FAILS(TOCSIN_ERROR_ARGUMENT, tocsin_iallgatherv(comm, NULL, memory, NULL, NULL, NULL, &request));
    FAILS(TOCSIN_ERROR_ARGUMENT, tocsin_iallgather(comm, memory, NULL, 1, NULL, &request));
    FAILS(TOCSIN_ERROR_ALGORITHM, tocsin_iscan(comm, NULL, memory, 1, TOCSIN_INT8, TOCSIN_SUM, "bruck", &request));
    if (size > 1) {
        FAILS(TOCSIN_ERROR_ARGUMENT, tocsin_iscatter(comm, NULL, NULL, 1, other, NULL, &request));
        FAILS(TOCSIN_ERROR_ARGUMENT,
              tocsin_ireduce(comm, NULL, NULL, 1, TOCSIN_INT8, TOCSIN_SUM, other, NULL, &request));
    }
    if (size > 2) {
        /* Two blocks at one place. */
        FAILS(TOCSIN_ERROR_ARGUMENT, tocsin_iallgatherv(comm, NULL, memory, lengths, offsets, NULL, &request));
        CHECK(strstr(tocsin_last_error(), "overlap") != NULL);
    }
    CHECK(request == NULL);
    free(lengths);
    free(offsets);
    free(memory);
}

static void collectives(tocsin_comm *comm, int rank, int size) {
    static const size_t sizes[] = {0, 1, 1000, 20000};
    size_t i;
    for (i = 0; i < sizeof sizes / sizeof sizes[0]; i++) {
        scatter_and_gather(comm, rank, size, sizes[i]);
        displaced(comm, rank, size, sizes[i]);
        exchange_of_blocks(comm, rank, size, sizes[i] / 8);
        between_each_other(comm, rank, size, sizes[i]);
        reductions(comm, rank, size, sizes[i] / 8);
    }
    transposed(comm, rank, size, 1, 1, NULL);
    transposed(comm, rank, size, 7, 3, "pairwise");
    transposed(comm, rank, size, 40, 64, NULL);
    transposed(comm, rank, size, 30000, 1, NULL);
    transposed(comm, rank, size, 3, 90000, "linear");
    between_columns(comm, rank, size, 1);
    between_columns(comm, rank, size, 500);
    between_columns(comm, rank, size, 50000);
    columns_of(comm, rank, size, 1, 1, 0);
    columns_of(comm, rank, size, 7, 3, size - 1);
    columns_of(comm, rank, size, 40, 64, size / 2);
    columns_of(comm, rank, size, 30000, 1, 0);
    columns_of(comm, rank, size, 3, 90000, size - 1);
    refused(comm, rank, size);
}

#endif
