// SPDX-License-Identifier: GPL-2.0
/*
 * Registrations of receivers.
 *
 * Lifetime. Each registration gets a descriptor of its own, so a sender of an earlier one can never reach a later
 * one, and bits posted between two registrations are not delivered by mistake. The descriptor lives while the thread
 * is registered, while a descriptor of one of its vectors is open, and while a table has an entry with its address:
 * each holds a reference. What the processor may touch is thereby alive:
 *  - the receiver's own CPU, through its register: the thread clears the register before it drops its reference;
 *  - a sender's CPU, through a table entry: see table.c, which drops the entry's reference only when no SENDUIPI that
 *    may have read the entry is still under way.
 * When the thread has gone, senders post into a descriptor that nobody reads and that suppresses notifications.
 */
#include "private.h"

#include <linux/slab.h>

static struct kmem_cache *cache;
static atomic_long_t active;
static atomic_long_t existing;

struct uintr_receiver *uintr_receiver_new(void)
{
	struct uintr_receiver *receiver = kmem_cache_zalloc(cache, GFP_KERNEL_ACCOUNT);

	if (!receiver)
		return NULL;
	uintr_upid_init(&receiver->upid);
	refcount_set(&receiver->refs, 1);
	receiver->active = true;
	atomic_long_inc(&active);
	atomic_long_inc(&existing);
	return receiver;
}

struct uintr_receiver *uintr_receiver_get(struct uintr_receiver *receiver)
{
	refcount_inc(&receiver->refs);
	return receiver;
}

void uintr_receiver_put(struct uintr_receiver *receiver)
{
	if (!refcount_dec_and_test(&receiver->refs))
		return;
	kmem_cache_free(cache, receiver);
	atomic_long_dec(&existing);
}

void uintr_receiver_retire(struct uintr_receiver *receiver)
{
	WRITE_ONCE(receiver->active, false);
	atomic_long_dec(&active);
}

u64 uintr_receivers_active(void)
{
	return atomic_long_read(&active);
}

u64 uintr_receivers_existing(void)
{
	return atomic_long_read(&existing);
}

int uintr_receivers_init(void)
{
	cache = kmem_cache_create("uintr_receiver", sizeof(struct uintr_receiver), __alignof__(struct uintr_upid),
				  SLAB_ACCOUNT, NULL);
	return cache ? 0 : -ENOMEM;
}

void uintr_receivers_exit(void)
{
	kmem_cache_destroy(cache);
}
