// SPDX-License-Identifier: GPL-2.0
/*
 * Freeing what died where nothing may sleep.
 *
 * A thread ends in the scheduler, with its runqueue locked; exec tells us with preemption off; a table's last
 * reference may go in a callback. None of them may free, and the first may not even queue work, for waking a worker
 * takes a runqueue's lock. All of them can add to a lock-free list and ask this CPU for an interrupt; the interrupt
 * starts the work that frees.
 *
 * The work waits for an RCU grace period first, because the dead may still be looked at:
 *  - the scheduler walks a thread's list of notifiers, interrupts off, and reads the link of a dead thread's after
 *    its callback has returned;
 *  - the search for a table (table.c) walks a chain under RCU;
 *  - a callback that buried something has still to return, and module text must not go before it does. References to
 *    the module are dropped here only.
 */
#include "private.h"

#include <linux/irq_work.h>
#include <linux/rcupdate.h>
#include <linux/workqueue.h>

static LLIST_HEAD(dead);

static void bury_all(struct work_struct *unused)
{
	struct llist_node *list = llist_del_all(&dead);
	struct uintr_remains *remains, *next;

	if (!list)
		return;
	synchronize_rcu();
	llist_for_each_entry_safe(remains, next, list, node)
		remains->bury(remains);
}

static DECLARE_WORK(burial, bury_all);

static void start_burial(struct irq_work *unused)
{
	schedule_work(&burial);
}

static DEFINE_IRQ_WORK(burial_interrupt, start_burial);

void uintr_bury(struct uintr_remains *remains)
{
	llist_add(&remains->node, &dead);
	irq_work_queue(&burial_interrupt);
}

/*
 * Nothing new dies when this is called, for nothing lives; but the work that dropped the last reference may not have
 * returned, and a callback that has buried may not have, either.
 */
void uintr_burial_drain(void)
{
	irq_work_sync(&burial_interrupt);
	flush_work(&burial);
	synchronize_rcu();
}
