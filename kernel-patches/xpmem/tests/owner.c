// SPDX-License-Identifier: GPL-2.0
#include "owner.h"

#include "harness.h"
#include "ioctls.h"
#include "touch.h"

#include <signal.h>

struct order *owner_of(size_t size)
{
	struct order *order = shared_memory(sizeof(*order));
	pid_t pid = fork();

	if (!pid) {
		int number = 0;

		order->fd = open_xpmem();
		order->memory = memory(NULL, size);
		memset(order->memory, 'o', size);
		order->segment = make(order->fd, order->memory, size);
		STORE(order->done, 1);
		for (;;) {
			AWAIT(LOAD(order->number) != number);
			number = order->number;
			order->what(order);
			ADD(order->done, 1);
		}
	}
	order->pid = pid;
	catch_signals();
	AWAIT(LOAD(order->done));
	return order;
}

void tell(struct order *order, void (*what)(struct order *))
{
	int done = order->done;

	order->what = what;
	ADD(order->number, 1);
	AWAIT(LOAD(order->done) != done);
}

void kill_owner(struct order *order)
{
	CHECK(!kill(order->pid, SIGKILL));
	expect_end(order->pid, SIGKILL);
}
