/* Reductions of floats of 16 bits: ranks as processes, or, with their number as the argument, as threads. Compiled with WITHOUT_HALF
   for a library that has none. */
#include "check.h"

/* Numbers of this interface: a program that was compiled with them meets libraries that are built otherwise. */
typedef char float16_is_16[TOCSIN_FLOAT16 == 16 ? 1 : -1];
typedef char bfloat16_is_17[TOCSIN_BFLOAT16 == 17 ? 1 : -1];

static void *allocate(size_t bytes) {
    void *memory = malloc(bytes + 1);
    if (memory == NULL) {
        fprintf(stderr, "out of memory\n");
        exit(1);
    }
    return memory;
}

#ifdef WITHOUT_HALF

#define MISSING(call) \
    do { \
        FAILS(TOCSIN_ERROR_OPERATOR, call); \
        CHECK(strstr(tocsin_last_error(), "build it with the feature `half`") != NULL); \
        CHECK(request == NULL); \
    } while (0)

static void halves(tocsin_comm *comm, int rank, int size) {
    static const int types[] = {TOCSIN_FLOAT16, TOCSIN_BFLOAT16};
    size_t *ones = (size_t *)allocate((size_t)size * sizeof(size_t)), t;
    int *each = (int *)allocate((size_t)size * sizeof(int)), r;
    uint16_t mine[64] = {0}, result[64] = {0};
    tocsin_request *request = NULL;
    (void)rank;

    for (t = 0; t < 2; t++) {
        int type = types[t];
        for (r = 0; r < size; r++) {
            ones[r] = 1;
            each[r] = type;
        }
        MISSING(tocsin_iallreduce(comm, mine, result, 1, type, TOCSIN_SUM, NULL, &request));
        MISSING(tocsin_allreduce(comm, mine, result, 1, type, TOCSIN_SUM, NULL));
        MISSING(tocsin_allreduce_init(comm, mine, result, 1, type, TOCSIN_SUM, NULL, &request));
        MISSING(tocsin_ireduce(comm, mine, result, 1, type, TOCSIN_MIN, 0, NULL, &request));
        MISSING(tocsin_ireduce_scatter(comm, mine, result, ones, type, TOCSIN_MAX, NULL, &request));
        MISSING(tocsin_ireduce_scatter_block(comm, mine, result, 1, type, TOCSIN_PROD, NULL, &request));
        MISSING(tocsin_iscan(comm, mine, result, 1, type, TOCSIN_SUM, NULL, &request));
        MISSING(tocsin_iexscan(comm, mine, result, 1, type, TOCSIN_SUM, NULL, &request));
        MISSING(tocsin_ialltoallw(comm, mine, ones, NULL, each, result, ones, NULL, each, NULL, &request));
    }
    free(ones);
    free(each);
}

#else

/* One of the two types, and some of its numbers. */
typedef struct {
    int type;
    /* As it is called in texts. */
    const char *name;
    uint16_t one, infinity, largest, nan;
    /* From here on not every integer is a number of the type. */
    int sparse;
} half;

static const half HALVES[2] = {
    {TOCSIN_FLOAT16, "f16 ", 0x3c00, 0x7c00, 0x7bff, 0x7e01, 2048},
    {TOCSIN_BFLOAT16, "bf16 ", 0x3f80, 0x7f80, 0x7f7f, 0x7fc1, 256},
};

/* The bits of a number that the type has, and that is not too small. */
static uint16_t bits_of(const half *h, float value) {
    uint32_t bits, sign;
    memcpy(&bits, &value, sizeof bits);
    sign = bits >> 16 & 0x8000;
    if (h->type == TOCSIN_BFLOAT16) return (uint16_t)(bits >> 16);
    bits &= 0x7fffffff;
    return (uint16_t)(sign | (bits == 0 ? 0 : (bits - (112U << 23)) >> 13));
}

/* bits_of against the compiler, if it has the type. */
static void as_the_compiler_has_them(void) {
    CHECK(bits_of(&HALVES[0], 1) == HALVES[0].one && bits_of(&HALVES[1], 1) == HALVES[1].one);
    CHECK(bits_of(&HALVES[0], -2048) == 0xe800 && bits_of(&HALVES[1], -256) == 0xc380);
#ifdef __FLT16_MANT_DIG__
    {
        int i, wrong = 0;
        for (i = -2048; i <= 2048; i++) {
            __extension__ _Float16 number = (_Float16)i;
            uint16_t bits;
            memcpy(&bits, &number, sizeof bits);
            wrong += bits != bits_of(&HALVES[0], (float)i);
        }
        CHECK(wrong == 0);
    }
#endif
#ifdef __BFLT16_MANT_DIG__
    {
        int i, wrong = 0;
        for (i = -256; i <= 256; i++) {
            __extension__ __bf16 number = (__bf16)i;
            uint16_t bits;
            memcpy(&bits, &number, sizeof bits);
            wrong += bits != bits_of(&HALVES[1], (float)i);
        }
        CHECK(wrong == 0);
    }
#endif
}

/* What rank `r` has at `i`: integers so small that all that comes of up to four of them is exact. */
static int given_by(int op, int r, size_t i) {
    if (op == TOCSIN_PROD) return (int)((i + (size_t)r) % 3) + 1;
    return (int)((7 * i + 3 * (size_t)r) % 23) - 11;
}

/* The combination of what ranks 0 to `ranks` - 1 have at `i`. */
static float combined(int op, int ranks, size_t i) {
    int all = given_by(op, 0, i), r;
    for (r = 1; r < ranks; r++) {
        int next = given_by(op, r, i);
        if (op == TOCSIN_SUM) all += next;
        if (op == TOCSIN_PROD) all *= next;
        if (op == TOCSIN_MIN && next < all) all = next;
        if (op == TOCSIN_MAX && next > all) all = next;
    }
    return (float)all;
}

/* How many of `count` elements, the first of them number `from`, are not the combination of `ranks` ranks' ones. */
static size_t wrong_ones(const half *h, const uint16_t *at, int op, int ranks, size_t from, size_t count) {
    size_t i, wrong = 0;
    for (i = 0; i < count; i++) {
        uint16_t expected = bits_of(h, combined(op, ranks, from + i));
        /* Zeros of either sign. */
        wrong += at[i] != expected && ((at[i] | expected) & 0x7fff) != 0;
    }
    return wrong;
}

static const char *const ALLREDUCES[] = {NULL, "linear", "recursive-doubling", "ring", "rabenseifner", "reduce-bcast"};
static const char *const REDUCES[] = {NULL, "linear", "binomial", "binomial-root", "rabenseifner"};
static const char *const SCATTERS[] = {NULL, "reduce-then-scatter", "recursive-halving", "pairwise"};
static const char *const SCANS[] = {NULL, "chain", "pipelined-chain", "recursive-doubling"};

#define LENGTH(list) (sizeof(list) / sizeof(list)[0])

/* Every reduction, by every algorithm. Odd offsets of buffers: elements need not be aligned. */
static void every_one(tocsin_comm *comm, const half *h, int op, int rank, int size, size_t count) {
    size_t n = (size_t)size, me = (size_t)rank, i, a, total = count * n, start = 0;
    size_t *counts = (size_t *)allocate(n * sizeof(size_t));
    uint16_t *data = (uint16_t *)allocate(2 * total * 2), *result = (uint16_t *)allocate(2 * total * 2);
    unsigned char *odd = (unsigned char *)allocate(count * 2);
    tocsin_request *request = NULL;
    int r;

    for (i = 0; i < 2 * total; i++) data[i] = bits_of(h, (float)given_by(op, rank, i));
    for (a = 0; a < LENGTH(ALLREDUCES); a++) {
        memset(result, 0xff, count * 2);
        OK(tocsin_iallreduce(comm, data, result, count, h->type, op, ALLREDUCES[a], &request));
        OK(tocsin_wait(&request, NULL));
        CHECK(wrong_ones(h, result, op, size, 0, count) == 0);
        /* In place, at no element's place. */
        memcpy(odd + 1, data, count * 2);
        OK(tocsin_allreduce(comm, NULL, odd + 1, count, h->type, op, ALLREDUCES[a]));
        memcpy(result, odd + 1, count * 2);
        CHECK(wrong_ones(h, result, op, size, 0, count) == 0);
        request = NULL;
        OK(tocsin_allreduce_init(comm, data, result, count, h->type, op, ALLREDUCES[a], &request));
        for (r = 0; r < 2; r++) {
            memset(result, 0xff, count * 2);
            OK(tocsin_start(request));
            OK(tocsin_wait(&request, NULL));
            CHECK(wrong_ones(h, result, op, size, 0, count) == 0);
        }
        OK(tocsin_request_free(&request));
    }
    for (a = 0; a < LENGTH(REDUCES); a++) {
        int root = (int)a % size;
        memset(result, 0xff, count * 2);
        OK(tocsin_ireduce(comm, data, result, count, h->type, op, root, REDUCES[a], &request));
        OK(tocsin_wait(&request, NULL));
        if (rank == root) CHECK(wrong_ones(h, result, op, size, 0, count) == 0);
    }
    for (r = 0; r < size; r++) {
        counts[r] = (size_t)(r % 3) * count;
        if (r < rank) start += counts[r];
    }
    for (a = 0; a < LENGTH(SCATTERS); a++) {
        memset(result, 0xff, count * 2);
        OK(tocsin_ireduce_scatter_block(comm, data, result, count, h->type, op, SCATTERS[a], &request));
        OK(tocsin_wait(&request, NULL));
        CHECK(wrong_ones(h, result, op, size, me * count, count) == 0);
        memset(result, 0xff, counts[rank] * 2);
        OK(tocsin_ireduce_scatter(comm, data, result, counts, h->type, op, SCATTERS[a], &request));
        OK(tocsin_wait(&request, NULL));
        CHECK(wrong_ones(h, result, op, size, start, counts[rank]) == 0);
    }
    for (a = 0; a < LENGTH(SCANS); a++) {
        memset(result, 0xff, count * 2);
        OK(tocsin_iscan(comm, data, result, count, h->type, op, SCANS[a], &request));
        OK(tocsin_wait(&request, NULL));
        CHECK(wrong_ones(h, result, op, rank + 1, 0, count) == 0);
        memset(result, 0xff, count * 2);
        OK(tocsin_iexscan(comm, data, result, count, h->type, op, SCANS[a], &request));
        OK(tocsin_wait(&request, NULL));
        if (rank > 0) CHECK(wrong_ones(h, result, op, rank, 0, count) == 0);
    }
    free(counts);
    free(data);
    free(result);
    free(odd);
}

/* Algorithms that combine in the order of the ranks: a NaN of the first one stays, one of the last one is passed over. */
static void beside_a_nan(tocsin_comm *comm, const half *h, int rank, int size) {
    static const char *const allreduces[] = {"linear", "recursive-doubling", "rabenseifner", "reduce-bcast"};
    static const int ops[] = {TOCSIN_MIN, TOCSIN_MAX, TOCSIN_SUM, TOCSIN_PROD};
    uint16_t mine[2], result[2];
    size_t a, o;

    for (o = 0; o < LENGTH(ops); o++) {
        int op = ops[o], chooses = op == TOCSIN_MIN || op == TOCSIN_MAX;
        for (a = 0; a < LENGTH(allreduces); a++) {
            mine[0] = rank == 0 ? h->nan : bits_of(h, (float)given_by(op, rank, 0));
            mine[1] = rank == size - 1 ? h->nan : bits_of(h, (float)given_by(op, rank, 1));
            OK(tocsin_allreduce(comm, mine, result, 2, h->type, op, allreduces[a]));
            if (chooses) {
                CHECK(result[0] == h->nan);
                if (size > 1) CHECK(wrong_ones(h, result + 1, op, size - 1, 1, 1) == 0);
            } else {
                CHECK((result[0] & 0x7fff) > h->infinity && (result[1] & 0x7fff) > h->infinity);
            }
        }
    }
}

/* Where numbers end, and are not integers any more. */
static void at_the_ends(tocsin_comm *comm, const half *h, int rank, int size) {
    static const char *const scans[] = {"chain", "pipelined-chain"};
    uint16_t mine[4], result[4];
    size_t a;

    for (a = 0; a < LENGTH(scans); a++) {
        mine[0] = h->largest;
        mine[1] = (uint16_t)(h->largest | 0x8000);
        /* Its smallest number. */
        mine[2] = 1;
        /* 1 is half of what the last bit is worth, and what is as near to two is rounded to the even one, each time. */
        mine[3] = rank == 0 ? bits_of(h, (float)h->sparse) : h->one;
        OK(tocsin_scan(comm, mine, result, 4, h->type, TOCSIN_SUM, scans[a]));
        CHECK(result[0] == (rank == 0 ? h->largest : h->infinity));
        CHECK(result[1] == ((rank == 0 ? h->largest : h->infinity) | 0x8000));
        CHECK(result[2] == rank + 1);
        CHECK(result[3] == bits_of(h, (float)h->sparse));
    }
    /* 3 more is rounded up. */
    mine[0] = rank == 0 ? bits_of(h, (float)h->sparse) : bits_of(h, 3);
    OK(tocsin_scan(comm, mine, result, 1, h->type, TOCSIN_SUM, "chain"));
    CHECK(result[0] == bits_of(h, (float)(h->sparse + 4 * rank)));
    (void)size;
}

/* The left one: associative, not commutative. */
static void left_one(void *context, const void *left, const void *right, void *out, size_t count) {
    (void)context;
    (void)right;
    memmove(out, left, 2 * count);
}

/* Operators that floats have none of, and one of the user. */
static void operators(tocsin_comm *comm, const half *h, int rank) {
    static const int none[] = {TOCSIN_LAND, TOCSIN_LOR,  TOCSIN_LXOR,   TOCSIN_BAND,
                               TOCSIN_BOR,  TOCSIN_BXOR, TOCSIN_MINLOC, TOCSIN_MAXLOC};
    uint16_t mine = (uint16_t)(h->one + rank), result = 0;
    tocsin_request *request = NULL;
    size_t o;
    int op = 0;

    for (o = 0; o < LENGTH(none); o++) {
        FAILS(TOCSIN_ERROR_OPERATOR, tocsin_iallreduce(comm, &mine, &result, 1, h->type, none[o], NULL, &request));
        CHECK(request == NULL && strstr(tocsin_last_error(), h->name) != NULL);
        FAILS(TOCSIN_ERROR_OPERATOR, tocsin_scan(comm, &mine, &result, 1, h->type, none[o], NULL));
    }
    OK(tocsin_op_create(left_one, NULL, 0, &op));
    OK(tocsin_allreduce(comm, &mine, &result, 1, h->type, op, NULL));
    CHECK(result == h->one);
    OK(tocsin_op_free(&op));
}

/* Elements of two bytes, where nothing is combined. */
static void exchanged(tocsin_comm *comm, const half *h, int rank, int size) {
    size_t n = (size_t)size, *ones = (size_t *)allocate(n * sizeof(size_t)), wrong = 0;
    int *types = (int *)allocate(n * sizeof(int)), r;
    uint16_t *out = (uint16_t *)allocate(n * 2), *in = (uint16_t *)allocate(n * 2);

    for (r = 0; r < size; r++) {
        ones[r] = 1;
        types[r] = h->type;
        out[r] = (uint16_t)(100 * rank + r);
    }
    OK(tocsin_alltoallw(comm, out, ones, NULL, types, in, ones, NULL, types, NULL));
    for (r = 0; r < size; r++) wrong += in[r] != 100 * r + rank;
    CHECK(wrong == 0);
    free(ones);
    free(types);
    free(out);
    free(in);
}

static void halves(tocsin_comm *comm, int rank, int size) {
    static const int ops[] = {TOCSIN_SUM, TOCSIN_PROD, TOCSIN_MIN, TOCSIN_MAX};
    static const size_t counts[] = {0, 1, 37, 3000, 70001};
    size_t h, o, c;

    as_the_compiler_has_them();
    for (h = 0; h < LENGTH(HALVES); h++) {
        for (o = 0; o < LENGTH(ops); o++)
            for (c = 0; c < LENGTH(counts); c++) every_one(comm, &HALVES[h], ops[o], rank, size, counts[c]);
        beside_a_nan(comm, &HALVES[h], rank, size);
        at_the_ends(comm, &HALVES[h], rank, size);
        operators(comm, &HALVES[h], rank);
        exchanged(comm, &HALVES[h], rank, size);
    }
}

#endif

static int body(tocsin_comm *comm, void *argument) {
    int rank = -1, size = 0;
    (void)argument;
    OK(tocsin_comm_rank(comm, &rank));
    OK(tocsin_comm_size(comm, &size));
    halves(comm, rank, size);
    return 0;
}

int main(int argc, char **argv) {
    tocsin_world *world = NULL;
    tocsin_comm *comm = NULL;

    if (argc > 1) {
        OK(tocsin_threads_run(atoi(argv[1]), body, NULL));
    } else {
        OK(tocsin_init(&world));
        OK(tocsin_world_comm(world, &comm));
        body(comm, NULL);
        OK(tocsin_comm_free(&comm));
        OK(tocsin_finalize(&world));
    }
    printf("%d failures\n", failures);
    return failures != 0;
}
