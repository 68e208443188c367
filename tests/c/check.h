/* Checks for the test programs: they print what failed and count, and main returns 1 if any did. Valid C11 and C++. */
#ifndef CHECK_H
#define CHECK_H

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tocsin.h"

/* Counted by threads too. */
static int failures;

#define FAILED() (void)__atomic_fetch_add(&failures, 1, __ATOMIC_RELAXED)

#define CHECK(condition) \
    do { \
        if (!(condition)) { \
            fprintf(stderr, "%s:%d: not true: %s\n", __FILE__, __LINE__, #condition); \
            FAILED(); \
        } \
    } while (0)

/* A call that must succeed, or there is no point in going on. */
#define OK(call) \
    do { \
        int code_ = (call); \
        if (code_ != TOCSIN_OK) { \
            fprintf(stderr, "%s:%d: %s: %s (%s)\n", __FILE__, __LINE__, #call, tocsin_strerror(code_), \
                    tocsin_last_error()); \
            exit(1); \
        } \
    } while (0)

/* A call that must fail with this code, and say why. */
#define FAILS(code, call) \
    do { \
        int code_ = (call); \
        if (code_ != (code)) { \
            fprintf(stderr, "%s:%d: %s gave %d (%s), not %s\n", __FILE__, __LINE__, #call, code_, \
                    tocsin_strerror(code_), #code); \
            FAILED(); \
        } else if (strlen(tocsin_last_error()) == 0) { \
            fprintf(stderr, "%s:%d: %s left no text\n", __FILE__, __LINE__, #call); \
            FAILED(); \
        } \
    } while (0)

#endif
