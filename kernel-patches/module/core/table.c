// SPDX-License-Identifier: GPL-2.0
/*
 * Tables of senders: one for each address space that has ever registered as a sender.
 *
 * Entries and the processor. SENDUIPI on another CPU may be reading an entry, or be about to write the descriptor
 * that it read from one, at any moment, and takes no lock that we could take. So:
 *  - An entry becomes valid, or invalid, by one 8-byte store.
 *  - After an entry is made invalid, every CPU that may run a thread of the address space is interrupted, and all of
 *    them have answered before the entry is used again or its descriptor's reference is dropped. SENDUIPI is one
 *    instruction: a CPU that answers an interrupt is not in the middle of one, and one that starts later reads the
 *    entry as invalid. (An RCU grace period would not do: user code on a nohz_full CPU is quiescent for RCU all the
 *    time.) A CPU on which the address space is loaded after the store needs no interrupt: loading it orders the
 *    CPU's later reads after our store, as TLB shootdown, which uses the same mask, relies on, too.
 *  - The two halves of an entry might be read by two loads, in either order. An entry's address half is therefore
 *    never left over from an earlier use: when an entry is free it points to a descriptor that belongs to nobody and
 *    notifies nobody. A SENDUIPI that races with the registration of its own index, which nobody has told it yet,
 *    posts there. In no case does the processor follow a pointer to freed memory, or to address 0, which it would
 *    do as a supervisor and the kernel take for its own fault.
 *
 * Lifetime. The table ends with the address space, which the kernel tells by the release call of an MMU notifier, and
 * that is: when the last user has left, by exit or exec. By then no thread can run user code in it again, so no
 * SENDUIPI is under way, and no interrupt is needed: every CPU that ran one has entered the kernel since. Threads
 * that are on their way out still carry the table's address in a register, though they cannot use it; each holds a
 * reference, so the page outlives that, too.
 *
 * vfork and CLONE_VM give a thread the same address space and so the same table. fork gives a new one, without.
 */
#include "private.h"

#include <linux/gfp.h>
#include <linux/hashtable.h>
#include <linux/mm.h>
#include <linux/mmu_notifier.h>
#include <linux/module.h>
#include <linux/mutex.h>
#include <linux/nospec.h>
#include <linux/sched/mm.h>
#include <linux/slab.h>
#include <linux/smp.h>

/* A slot of the table as the kernel knows it; free if count is 0. */
struct slot {
	struct uintr_receiver *receiver;
	u64 count;	/* registrations */
	u8 vector;
};

struct uintr_table {
	struct mmu_notifier notifier;
	struct hlist_node link;		/* in tables, under tables_lock */
	struct mm_struct *mm;		/* only compared */
	refcount_t refs;		/* the address space, each thread that carries the address */
	struct uintr_uitte *entries;
	struct mutex lock;		/* of slots and of writing to entries */
	struct uintr_remains remains;
	struct slot slots[UINTR_SENDERS];
};

static DEFINE_HASHTABLE(tables, 8);
static DEFINE_SPINLOCK(tables_lock);
/* Of making tables; mmap_lock is taken inside. */
static DEFINE_MUTEX(make_lock);
static atomic_long_t existing;
/* Where entries in nobody's use point to. */
static struct uintr_upid nobody;

static_assert(UINTR_SENDERS * sizeof(struct uintr_uitte) == PAGE_SIZE);

static struct mmu_notifier *table_alloc(struct mm_struct *mm)
{
	struct uintr_table *table = kzalloc(sizeof(*table), GFP_KERNEL_ACCOUNT);
	unsigned int i;

	if (!table)
		return ERR_PTR(-ENOMEM);
	table->entries = (struct uintr_uitte *)get_zeroed_page(GFP_KERNEL_ACCOUNT);
	if (!table->entries) {
		kfree(table);
		return ERR_PTR(-ENOMEM);
	}
	for (i = 0; i < UINTR_SENDERS; i++)
		table->entries[i].upid = (u64)&nobody;
	table->mm = mm;
	INIT_HLIST_NODE(&table->link);
	refcount_set(&table->refs, 1);
	mutex_init(&table->lock);
	atomic_long_inc(&existing);
	__module_get(THIS_MODULE);
	return &table->notifier;
}

static void table_bury(struct uintr_remains *remains)
{
	struct uintr_table *table = container_of(remains, struct uintr_table, remains);

	free_page((unsigned long)table->entries);
	kfree(table);
	atomic_long_dec(&existing);
	module_put(THIS_MODULE);
}

/* In a callback of SRCU: the bottom half is off. */
static void table_free(struct mmu_notifier *notifier)
{
	struct uintr_table *table = container_of(notifier, struct uintr_table, notifier);

	table->remains.bury = table_bury;
	uintr_bury(&table->remains);
}

/* The address space has ended. */
static void table_release(struct mmu_notifier *notifier, struct mm_struct *mm)
{
	struct uintr_table *table = container_of(notifier, struct uintr_table, notifier);
	unsigned int i;

	spin_lock(&tables_lock);
	hash_del_rcu(&table->link);
	spin_unlock(&tables_lock);

	mutex_lock(&table->lock);
	for (i = 0; i < UINTR_SENDERS; i++) {
		struct slot *slot = &table->slots[i];

		if (!slot->count)
			continue;
		WRITE_ONCE(table->entries[i].target, 0);
		WRITE_ONCE(table->entries[i].upid, (u64)&nobody);
		uintr_receiver_put(slot->receiver);
		slot->receiver = NULL;
		slot->count = 0;
	}
	mutex_unlock(&table->lock);
	uintr_table_put(table);
}

static const struct mmu_notifier_ops table_ops = {
	.release = table_release,
	.alloc_notifier = table_alloc,
	.free_notifier = table_free,
};

struct uintr_table *uintr_table_get(struct uintr_table *table)
{
	refcount_inc(&table->refs);
	return table;
}

void uintr_table_put(struct uintr_table *table)
{
	if (refcount_dec_and_test(&table->refs))
		mmu_notifier_put(&table->notifier);
}

struct uintr_uitte *uintr_table_entries(struct uintr_table *table)
{
	return table->entries;
}

struct uintr_table *uintr_table_current(void)
{
	struct mm_struct *mm = current->mm;
	struct uintr_table *table, *found = NULL;

	if (!mm)
		return NULL;
	rcu_read_lock();
	hash_for_each_possible_rcu(tables, table, link, (unsigned long)mm) {
		if (table->mm == mm) {
			found = table;
			break;
		}
	}
	rcu_read_unlock();
	return found;
}

struct uintr_table *uintr_table_make(void)
{
	struct uintr_table *table = uintr_table_current();
	struct mmu_notifier *notifier;

	if (table)
		return table;
	mutex_lock(&make_lock);
	table = uintr_table_current();
	if (table)
		goto out;
	notifier = mmu_notifier_get(&table_ops, current->mm);
	if (IS_ERR(notifier)) {
		/* Registering a notifier gives up when a signal is pending; the caller comes again after it. */
		table = PTR_ERR(notifier) == -EINTR ? ERR_PTR(-ERESTARTNOINTR) : ERR_CAST(notifier);
		goto out;
	}
	table = container_of(notifier, struct uintr_table, notifier);
	spin_lock(&tables_lock);
	hash_add_rcu(tables, &table->link, (unsigned long)table->mm);
	spin_unlock(&tables_lock);
out:
	mutex_unlock(&make_lock);
	return table;
}

int uintr_table_add(struct uintr_table *table, struct uintr_receiver *receiver, unsigned int vector)
{
	struct slot *slot, *unused = NULL;
	int index;

	mutex_lock(&table->lock);
	for (slot = table->slots; slot < table->slots + UINTR_SENDERS; slot++) {
		if (!slot->count) {
			if (!unused)
				unused = slot;
		} else if (slot->receiver == receiver && slot->vector == vector) {
			slot->count++;
			goto found;
		}
	}
	slot = unused;
	if (!slot) {
		index = -ENOSPC;
		goto out;
	}
	slot->receiver = uintr_receiver_get(receiver);
	slot->vector = vector;
	slot->count = 1;
	WRITE_ONCE(table->entries[slot - table->slots].upid, (u64)&receiver->upid);
	smp_store_release(&table->entries[slot - table->slots].target, UINTR_UITTE_VALID | (u64)vector << 8);
found:
	index = slot - table->slots;
out:
	mutex_unlock(&table->lock);
	return index;
}

static void answer(void *unused)
{
}

int uintr_table_remove(struct uintr_table *table, unsigned int index)
{
	struct uintr_receiver *receiver = NULL;
	int result = 0;

	if (index >= UINTR_SENDERS)
		return -EINVAL;
	index = array_index_nospec(index, UINTR_SENDERS);
	mutex_lock(&table->lock);
	if (!table->slots[index].count) {
		result = -EINVAL;
	} else if (--table->slots[index].count == 0) {
		receiver = table->slots[index].receiver;
		table->slots[index].receiver = NULL;
		WRITE_ONCE(table->entries[index].target, 0);
		/* The store before the reading of the mask: see the head of this file. */
		smp_mb();
		on_each_cpu_mask(mm_cpumask(table->mm), answer, NULL, 1);
		WRITE_ONCE(table->entries[index].upid, (u64)&nobody);
	}
	mutex_unlock(&table->lock);
	if (receiver)
		uintr_receiver_put(receiver);
	return result;
}

u64 uintr_tables_existing(void)
{
	return atomic_long_read(&existing);
}

void uintr_tables_init(void)
{
	uintr_upid_init(&nobody);
}

/* Every table is gone; the callback that said so may not have returned. */
void uintr_tables_exit(void)
{
	mmu_notifier_synchronize();
}
