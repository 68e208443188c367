/* SPDX-License-Identifier: GPL-2.0 */
/* The ioctls of /dev/knem as calls: -1 and errno. */
#ifndef IOCTLS_H
#define IOCTLS_H

#include <stddef.h>
#include <stdint.h>

#include "../knem_uapi.h"

#define NODE "/dev/knem"
enum { PAGE = 4096, PAGES = 16, SIZE = PAGES * PAGE };
/* Of PROT_READ and PROT_WRITE. */
enum { READ = 1, WRITE = 2, BOTH = READ | WRITE };

/* A cookie, never negative. */
int64_t create_of(int fd, const struct knem_cmd_param_iovec *parts, uint32_t number, uint32_t protection, uint32_t flags);
int64_t create(int fd, const void *start, uint64_t size, uint32_t protection, uint32_t flags);
int destroy(int fd, uint64_t cookie);
/* The status. */
int copy_of(int fd, uint64_t cookie, uint64_t offset, const struct knem_cmd_param_iovec *parts, uint32_t number, int write,
	    uint32_t flags);
int from(int fd, uint64_t cookie, uint64_t offset, void *to, uint64_t size);
int into(int fd, uint64_t cookie, uint64_t offset, const void *from, uint64_t size);

/* As above; a failure fails the test. */
int open_knem(void);
int64_t region(int fd, const void *start, uint64_t size);
void expect_copy(int fd, uint64_t cookie, char value);
/* Anonymous memory, full of this. */
char *memory(size_t size, char value);
/* How many pages are pinned in the whole machine. As root. */
int64_t pinned(void);

/* For what a call does in another process: its child's. */
#define IN_CHILD(statements) \
	do { \
		pid_t pid_ = fork(); \
		if (!pid_) { \
			statements; \
			_exit(0); \
		} \
		expect_end(pid_, 0); \
	} while (0)

#endif
