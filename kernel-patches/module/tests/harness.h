/* SPDX-License-Identifier: GPL-2.0 */
/*
 * A tiny harness: each test runs in a process of its own under a time limit; one line for each, then the sum; last,
 * the module's counters must have returned to what they were. After each, settings of the machine are what they were
 * (settings.h). Statements wait for events, and only where the kernel offers none (its counters) poll.
 */
#ifndef HARNESS_H
#define HARNESS_H

#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include <errno.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/types.h>
#include <unistd.h>
#include <x86gprintrin.h>

#include "../include/uintr_uapi.h"

#define UINTR __attribute__((target("uintr")))
/* What the compiler wraps in ENDBR-less saving of the registers it uses, and UIRET. */
#define HANDLER __attribute__((interrupt, target("uintr,general-regs-only")))

typedef struct __uintr_frame frame;
typedef unsigned long long vector;

/* A test ends at its first failure. */
void fail(const char *format, ...) __attribute__((noreturn, format(printf, 1, 2)));
/* The test cannot be made on this machine; counted and printed, and a failure unless the list says otherwise. */
#define CHECK(condition, ...) \
	do { \
		if (!(condition)) \
			fail(#condition " (line " LINE(__LINE__) "): " __VA_ARGS__); \
	} while (0)
#define LINE(x) LINE_(x)
#define LINE_(x) #x
/* A call that must fail with an errno. */
#define REFUSED(call, number) \
	do { \
		errno = 0; \
		long result_ = (call); \
		CHECK(result_ == -1 && errno == (number), #call " gave %ld, errno %d (%s)", result_, errno, \
		      strerror(errno)); \
	} while (0)

struct test {
	const char *name;
	void (*run)(void);
	const struct test *next;
};
void add_test(struct test *test);
#define TEST(name_) \
	static void name_(void); \
	__attribute__((constructor)) static void add_##name_(void) \
	{ \
		static struct test test = { #name_, name_, NULL }; \
		add_test(&test); \
	} \
	static void name_(void)

/* The value of NAME=value among the arguments, or a default. */
long argument(const char *name, long otherwise);
const char *text_argument(const char *name, const char *otherwise);

/* /dev/uintr, open in every process. A kernel that has the system calls has no device: then it is /dev/null, and what
 * the calls below do is the same. read_stats fails there.
 */
extern int device;
int open_device(void);
/* The calls; -1 and errno. */
int register_handler(void *handler, void *stack, size_t size);
int unregister_handler(void);
int set_stack(void *stack, size_t size);
int vector_fd(unsigned int number);
int register_sender(int fd);
int register_self(unsigned int number);
int unregister_sender(unsigned int index);
struct uintr_info read_info(void);
struct uintr_stats read_stats(void);

/* As above; a failure fails the test. */
void become_receiver(void *handler);
int own_vector(unsigned int number);
int sender_of(int fd);

/* CPUs are those that the test program was given, numbered from 0. */
int cpus(void);
void pin(int cpu);
void pin_thread(pid_t thread, int cpu);
/* The kernel's number of one. */
int cpu_number(int cpu);
uint64_t nanoseconds(void);
uint64_t random_number(uint64_t *state);
/* Waits for a child that must end with a status (as waitpid gives it). */
void expect_end(pid_t child, int status);
/* Waits, with a limit, until the counters, which are the whole machine's, are no higher than these. */
void expect_counters(struct uintr_info most);
/* Than before the test program. */
void expect_counters_back(void);

/* Spins until the condition holds, letting others run; the harness's time limit ends it. */
#define AWAIT(condition) \
	do { \
		for (unsigned int spins_ = 0; !(condition); spins_++) { \
			__builtin_ia32_pause(); \
			if (spins_ % 1024 == 1023) \
				sched_yield_(); \
		} \
	} while (0)
void sched_yield_(void);

/* What a program does when it is run with ROLE=name, after an exec of its own; its status. */
int role(const char *name) __attribute__((weak));

/* Memory that forked processes share. */
void *shared_memory(size_t size);

#define LOAD(x) __atomic_load_n(&(x), __ATOMIC_ACQUIRE)
#define STORE(x, value) __atomic_store_n(&(x), (value), __ATOMIC_RELEASE)
#define ADD(x, value) __atomic_fetch_add(&(x), (value), __ATOMIC_SEQ_CST)

#endif
