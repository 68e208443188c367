/* SPDX-License-Identifier: GPL-2.0 */
/* The ioctls of /dev/xpmem as calls: -1 and errno. */
#ifndef IOCTLS_H
#define IOCTLS_H

#include <stddef.h>
#include <stdint.h>

#define NODE "/dev/xpmem"
enum { PAGE = 4096, PAGES = 16, SIZE = PAGES * PAGE };

int64_t make_by(int fd, uint64_t start, uint64_t size, int type, uint64_t mode);
int remove_segment(int fd, int64_t id);
int64_t get_by(int fd, int64_t segment, int flags, int type, uint64_t value);
int release(int fd, int64_t id);
/* MAP_FAILED and errno. */
void *attach_at(int fd, int64_t permit, int64_t offset, uint64_t size, void *at);
int detach(int fd, void *at);

/* As above; a failure fails the test. */
int open_xpmem(void);
int64_t make(int fd, void *start, uint64_t size);
int64_t get(int fd, int64_t segment);
char *attach(int fd, int64_t permit, int64_t offset, uint64_t size);
/* Anonymous memory: there, over what is there, or anywhere. */
char *memory(void *at, size_t size);

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
