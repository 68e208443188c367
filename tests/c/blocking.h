/* The blocking collectives, each once: that they are the operations of their names, done when they return. */
#ifndef BLOCKING_H
#define BLOCKING_H

/* Rank `r` gives `100 * r + i` for number `i`, and gets what its name says. */
static void blocking(tocsin_comm *comm, int rank, int size) {
    size_t n = (size_t)size, me = (size_t)rank, i, wrong = 0;
    int64_t *out = (int64_t *)allocate(n * 8), *in = (int64_t *)allocate(n * 8), all, own;
    size_t *bytes = (size_t *)allocate(n * sizeof(size_t)), *ones = (size_t *)allocate(n * sizeof(size_t));
    size_t *offsets = (size_t *)allocate(n * sizeof(size_t));
    int *types = (int *)allocate(n * sizeof(int)), root = size - 1;
    tocsin_strided *pieces = (tocsin_strided *)allocate(n * sizeof(tocsin_strided));

    for (i = 0; i < n; i++) {
        tocsin_strided piece = {i * 8, 2, 4, 4};
        pieces[i] = piece;
        out[i] = 100 * rank + (int64_t)i;
        bytes[i] = 8;
        offsets[i] = i * 8;
        ones[i] = 1;
        types[i] = TOCSIN_INT64;
    }
#define CLEAR() (own = -1, memset(in, 0xff, n * 8))
/* One number from each rank: its number `at`. */
#define FROM_ALL(at) \
    for (i = 0, wrong = 0; i < n; i++) wrong += in[i] != 100 * (int64_t)i + (int64_t)(at); \
    CHECK(wrong == 0)
    OK(tocsin_barrier(comm, NULL));
    own = rank == root ? 4711 : 0;
    OK(tocsin_bcast(comm, &own, 8, root, NULL));
    CHECK(own == 4711);
    CLEAR();
    OK(tocsin_scatter(comm, out, &own, 8, root, NULL));
    CHECK(own == 100 * root + rank);
    CLEAR();
    OK(tocsin_scatterv(comm, out, bytes, offsets, &own, 8, root, "linear"));
    CHECK(own == 100 * root + rank);
    CLEAR();
    OK(tocsin_gather(comm, out, in, 8, root, NULL));
    if (rank == root) { FROM_ALL(0); }
    CLEAR();
    OK(tocsin_gatherv(comm, out + me, 8, in, bytes, offsets, root, NULL));
    for (i = 0, wrong = 0; i < n && rank == root; i++) wrong += in[i] != 101 * (int64_t)i;
    CHECK(wrong == 0);
    CLEAR();
    OK(tocsin_allgather(comm, out, in, 8, NULL));
    FROM_ALL(0);
    CLEAR();
    OK(tocsin_allgatherv(comm, out, in, bytes, offsets, NULL));
    FROM_ALL(0);
    CLEAR();
    OK(tocsin_alltoall(comm, out, in, 8, "pairwise"));
    FROM_ALL(rank);
    CLEAR();
    OK(tocsin_alltoallv(comm, out, bytes, offsets, in, bytes, offsets, NULL));
    FROM_ALL(rank);
    CLEAR();
    OK(tocsin_alltoallw(comm, out, ones, offsets, types, in, ones, offsets, types, NULL));
    FROM_ALL(rank);
    CLEAR();
    OK(tocsin_alltoallw_strided(comm, out, pieces, in, pieces, NULL));
    FROM_ALL(rank);
    CLEAR();
    OK(tocsin_scatterv_strided(comm, out, pieces, &own, 8, root, NULL));
    CHECK(own == 100 * root + rank);
    CLEAR();
    OK(tocsin_gatherv_strided(comm, out + me, 8, in, pieces, root, NULL));
    for (i = 0, wrong = 0; i < n && rank == root; i++) wrong += in[i] != 101 * (int64_t)i;
    CHECK(wrong == 0);
    CLEAR();
    OK(tocsin_allgatherv_strided(comm, out, in, pieces, NULL));
    FROM_ALL(0);
    /* Sums of a number of the ranks 0 to r. */
#define SUM(r, at) (100 * (int64_t)(r) * ((int64_t)(r) + 1) / 2 + ((int64_t)(r) + 1) * (int64_t)(at))
    all = SUM(root, 0);
    CLEAR();
    OK(tocsin_reduce(comm, out, &own, 1, TOCSIN_INT64, TOCSIN_SUM, root, NULL));
    CHECK(own == (rank == root ? all : -1));
    CLEAR();
    OK(tocsin_allreduce(comm, out, &own, 1, TOCSIN_INT64, TOCSIN_SUM, NULL));
    CHECK(own == all);
    CLEAR();
    OK(tocsin_reduce_scatter(comm, out, &own, ones, TOCSIN_INT64, TOCSIN_SUM, NULL));
    CHECK(own == SUM(root, rank));
    CLEAR();
    OK(tocsin_reduce_scatter_block(comm, out, &own, 1, TOCSIN_INT64, TOCSIN_SUM, NULL));
    CHECK(own == SUM(root, rank));
    CLEAR();
    OK(tocsin_scan(comm, out, &own, 1, TOCSIN_INT64, TOCSIN_SUM, NULL));
    CHECK(own == SUM(rank, 0));
    CLEAR();
    OK(tocsin_exscan(comm, out, &own, 1, TOCSIN_INT64, TOCSIN_SUM, NULL));
    CHECK(own == (rank > 0 ? SUM(rank - 1, 0) : -1));

    FAILS(TOCSIN_ERROR_ARGUMENT, tocsin_barrier(NULL, NULL));
    FAILS(TOCSIN_ERROR_ALGORITHM, tocsin_barrier(comm, "bogus"));
    FAILS(TOCSIN_ERROR_RANK, tocsin_bcast(comm, &own, 8, size, NULL));
    CHECK(strstr(tocsin_last_error(), "tocsin_bcast") != NULL);
#undef CLEAR
#undef FROM_ALL
#undef SUM
    free(out);
    free(in);
    free(bytes);
    free(ones);
    free(offsets);
    free(types);
    free(pieces);
}

#endif
