/* SPDX-License-Identifier: GPL-2.0 */
/* What a touch of memory ends with: 0 or its signal. */
#ifndef TOUCH_H
#define TOUCH_H

#include <setjmp.h>
#include <signal.h>

/* Where a signal of this thread goes on. */
extern __thread sigjmp_buf here;

void catch_signals(void);
int reads(const char *at, char *value);
int writes(char *at, char value);

void expect_value(const char *at, char value, int line);
#define VALUE(at, value) expect_value(at, value, __LINE__)
void expect_signal(char *at, int signal, int line);
#define SIGNAL(at, signal) expect_signal(at, signal, __LINE__)

#endif
