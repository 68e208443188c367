// SPDX-License-Identifier: GPL-2.0
/*
 * Tables of senders: one for each address space that has ever registered as a sender, or for several that share one.
 *
 * Entries and the processor. SENDUIPI on another CPU may be reading an entry, or be about to write the descriptor
 * that it read from one, at any moment, and takes no lock that we could take. So:
 *  - An entry becomes valid, or invalid, by one 8-byte store.
 *  - After an entry is made invalid, every CPU that may run a thread of an address space with this table is interrupted, and all of
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
 * Lifetime. What a table grants ends with its last owner: an address space or an open descriptor of the table (only the
 * system calls give those). An address space ends, which the kernel tells by the release call of an MMU notifier, when
 * the last user has left, by exit or exec. By then no thread can run user code in it again, so none of its SENDUIPIs is
 * under way, and no interrupt is needed: every CPU that ran one has entered the kernel since. Threads that are on their
 * way out still carry the table's address in a register, though they cannot use it; each holds a reference, so the
 * page outlives that, too.
 *
 * vfork and CLONE_VM give a thread the same address space and so the same table. fork gives a new one, without.
 */
#include "private.h"

#include <linux/gfp.h>
#include <linux/hashtable.h>
#include <linux/list.h>
#include <linux/mm.h>
#include <linux/mmap_lock.h>
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
	refcount_t refs;		/* each space, each thread that carries the address, each descriptor */
	struct uintr_uitte *entries;
	struct mutex lock;		/* of all below, and of writing to entries */
	struct list_head spaces;	/* the address spaces that have it */
	unsigned int owners;		/* those, and open descriptors */
	struct slot slots[UINTR_SENDERS];
};

/* That an address space has a table. */
struct space {
	struct mmu_notifier notifier;
	struct hlist_node link;		/* in spaces, under spaces_lock */
	struct list_head sibling;	/* in its table's list */
	struct mm_struct *mm;		/* the notifier's, which keeps the structure */
	struct uintr_table *table;
	struct uintr_remains remains;
};

static DEFINE_HASHTABLE(spaces, 8);
static DEFINE_SPINLOCK(spaces_lock);
static atomic_long_t existing;
/* Where entries in nobody's use point to. */
static struct uintr_upid nobody;

static_assert(UINTR_SENDERS * sizeof(struct uintr_uitte) == PAGE_SIZE);

static struct uintr_table *table_new(void)
{
	struct uintr_table *table = kzalloc(sizeof(*table), GFP_KERNEL_ACCOUNT);
	unsigned int i;

	if (!table)
		return NULL;
	table->entries = (struct uintr_uitte *)get_zeroed_page(GFP_KERNEL_ACCOUNT);
	if (!table->entries) {
		kfree(table);
		return NULL;
	}
	for (i = 0; i < UINTR_SENDERS; i++)
		table->entries[i].upid = (u64)&nobody;
	refcount_set(&table->refs, 1);
	mutex_init(&table->lock);
	INIT_LIST_HEAD(&table->spaces);
	atomic_long_inc(&existing);
	return table;
}

struct uintr_table *uintr_table_get(struct uintr_table *table)
{
	refcount_inc(&table->refs);
	return table;
}

/* Who holds a reference also holds one to the module, and drops it later. */
void uintr_table_put(struct uintr_table *table)
{
	if (!refcount_dec_and_test(&table->refs))
		return;
	free_page((unsigned long)table->entries);
	kfree(table);
	atomic_long_dec(&existing);
}

/* The table's lock is held. */
static void disown(struct uintr_table *table)
{
	unsigned int i;

	if (--table->owners)
		return;
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
}

void uintr_table_own(struct uintr_table *table)
{
	mutex_lock(&table->lock);
	table->owners++;
	mutex_unlock(&table->lock);
}

void uintr_table_disown(struct uintr_table *table)
{
	mutex_lock(&table->lock);
	disown(table);
	mutex_unlock(&table->lock);
}

static struct mmu_notifier *space_alloc(struct mm_struct *mm)
{
	struct space *space = kzalloc(sizeof(*space), GFP_KERNEL_ACCOUNT);

	if (!space)
		return ERR_PTR(-ENOMEM);
	space->mm = mm;
	__module_get(THIS_MODULE);
	return &space->notifier;
}

static void space_bury(struct uintr_remains *remains)
{
	struct space *space = container_of(remains, struct space, remains);

	/* None when its notifier could not be registered. */
	if (space->table)
		uintr_table_put(space->table);
	kfree(space);
	module_put(THIS_MODULE);
}

/* In a callback of SRCU: the bottom half is off. */
static void space_free(struct mmu_notifier *notifier)
{
	struct space *space = container_of(notifier, struct space, notifier);

	space->remains.bury = space_bury;
	uintr_bury(&space->remains);
}

/* The address space has ended. */
static void space_release(struct mmu_notifier *notifier, struct mm_struct *mm)
{
	struct space *space = container_of(notifier, struct space, notifier);
	struct uintr_table *table = space->table;

	spin_lock(&spaces_lock);
	hash_del_rcu(&space->link);
	spin_unlock(&spaces_lock);

	mutex_lock(&table->lock);
	list_del(&space->sibling);
	disown(table);
	mutex_unlock(&table->lock);
	mmu_notifier_put(&space->notifier);
}

static const struct mmu_notifier_ops space_ops = {
	.release = space_release,
	.alloc_notifier = space_alloc,
	.free_notifier = space_free,
};

struct uintr_uitte *uintr_table_entries(struct uintr_table *table)
{
	return table->entries;
}

struct uintr_table *uintr_table_current(void)
{
	struct mm_struct *mm = current->mm;
	struct uintr_table *found = NULL;
	struct space *space;

	if (!mm)
		return NULL;
	rcu_read_lock();
	hash_for_each_possible_rcu(spaces, space, link, (unsigned long)mm) {
		if (space->mm == mm) {
			found = space->table;
			break;
		}
	}
	rcu_read_unlock();
	return found;
}

/*
 * Giving address spaces their tables. Each has its mmap_lock for it: a program can have its own held for as long as it
 * likes, and waits for it alone, and can be killed while it waits. Only then mmu_notifier_get_locked() takes a lock that
 * all share, mm_all_locks_mutex, and those of all that this address space maps: a time that grows with the number of
 * its mappings, as for each virtual machine that KVM makes.
 */

/* The current address space has no table; its mmap_lock is held for writing. */
static int attach(struct uintr_table *table)
{
	struct mmu_notifier *notifier = mmu_notifier_get_locked(&space_ops, current->mm);
	struct space *space;

	/* Registering a notifier gives up when a signal is pending; the caller comes again after it. */
	if (IS_ERR(notifier))
		return PTR_ERR(notifier) == -EINTR ? -ERESTARTNOINTR : PTR_ERR(notifier);
	space = container_of(notifier, struct space, notifier);
	/* Whom the notifier calls looks at the table: not before the address space ends, which the caller runs in. */
	space->table = uintr_table_get(table);
	mutex_lock(&table->lock);
	list_add(&space->sibling, &table->spaces);
	table->owners++;
	mutex_unlock(&table->lock);
	spin_lock(&spaces_lock);
	hash_add_rcu(spaces, &space->link, (unsigned long)space->mm);
	spin_unlock(&spaces_lock);
	return 0;
}

int uintr_table_attach(struct uintr_table *table)
{
	int error = mmap_write_lock_killable(current->mm);

	if (error)
		return error;
	error = uintr_table_current() ? -EBUSY : attach(table);
	mmap_write_unlock(current->mm);
	return error;
}

struct uintr_table *uintr_table_make(void)
{
	struct uintr_table *table = uintr_table_current();
	int error;

	if (table)
		return table;
	error = mmap_write_lock_killable(current->mm);
	if (error)
		return ERR_PTR(error);
	table = uintr_table_current();
	if (table)
		goto out;
	table = table_new();
	if (!table) {
		table = ERR_PTR(-ENOMEM);
		goto out;
	}
	error = attach(table);
	/* From now on it is the address space's. */
	uintr_table_put(table);
	if (error)
		table = ERR_PTR(error);
out:
	mmap_write_unlock(current->mm);
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
	/* Valid last: who reads it so reads the address that goes with it. */
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
	struct space *space;
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
		list_for_each_entry(space, &table->spaces, sibling)
			on_each_cpu_mask(mm_cpumask(space->mm), answer, NULL, 1);
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
