/* SPDX-License-Identifier: GPL-2.0 */
/* An owner in a process of its own, which does what it is told. */
#ifndef OWNER_H
#define OWNER_H

#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

struct order {
	int done;
	int number;
	void (*what)(struct order *order);
	char *memory;
	int fd;
	int64_t segment;
	char value;
	pid_t pid;
};

/* One with a segment of this size, full of 'o'. Its caller catches signals from then on. */
struct order *owner_of(size_t size);
/* Waits until it is done. */
void tell(struct order *order, void (*what)(struct order *));
void kill_owner(struct order *order);

#endif
