// SPDX-License-Identifier: GPL-2.0
/*
 * What a thread carries: its receiver, its address space's table, and the processor's state while it does not run.
 *
 * It hangs on the thread's list of preemption notifiers, which is where it is found, too; fork does not copy that
 * list, so a child starts with nothing. The parent's registers were cleared when the parent was switched out, before
 * a child can run on its CPU. Only the thread itself looks at or changes what it carries (in calls, in the
 * scheduler's callbacks, in exec, in the trap of its first SENDUIPI), so no lock is needed; where a callback could
 * come in between, interrupts are off.
 *
 * It ends, whichever comes first:
 *  - when the thread gives up its receiver and has no table;
 *  - at exec (hooks.c), after the new address space is in place and before the first instruction of the new program.
 *    Between the two the thread is in the kernel, where no user interrupt is delivered; if it is switched out and in
 *    meanwhile, the address spaces differ and nothing is loaded;
 *  - when the thread is switched out for the last time. It still is in its list then, which nobody walks any more:
 *    the callback must not remove it, for the scheduler is walking. It is freed after a grace period (burial.c).
 *
 * Each holds a reference to the module, so the callbacks' text stays while any thread's list leads to it.
 */
#include "private.h"

#include <linux/irqflags.h>
#include <linux/mm_types.h>
#include <linux/module.h>
#include <linux/preempt.h>
#include <linux/sched.h>
#include <linux/sched/mm.h>
#include <linux/slab.h>

struct uintr_thread {
	struct preempt_notifier notifier;
	struct mm_struct *mm;		/* a reference on the structure, so that its address is not used again */
	struct uintr_receiver *receiver;
	struct uintr_table *table;
	struct uintr_state state;
	struct uintr_stats stats;
	int cpu;
	struct uintr_remains remains;
};

static void switched_in(struct preempt_notifier *notifier, int cpu);
static void switched_out(struct preempt_notifier *notifier, struct task_struct *next);

static struct preempt_ops callbacks = {
	.sched_in = switched_in,
	.sched_out = switched_out,
};

struct uintr_thread *uintr_thread_current(void)
{
	struct preempt_notifier *notifier;

	hlist_for_each_entry(notifier, &current->preempt_notifiers, link)
		if (notifier->ops == &callbacks)
			return container_of(notifier, struct uintr_thread, notifier);
	return NULL;
}

static void bury(struct uintr_remains *remains)
{
	struct uintr_thread *thread = container_of(remains, struct uintr_thread, remains);

	if (thread->receiver)
		uintr_receiver_put(thread->receiver);
	if (thread->table)
		uintr_table_put(thread->table);
	mmdrop(thread->mm);
	kfree(thread);
	module_put(THIS_MODULE);
}

/* Takes everything off the CPU. Interrupts off. */
static void let_go(struct uintr_thread *thread)
{
	uintr_state_clear(&thread->state);
	if (thread->receiver)
		uintr_receiver_retire(thread->receiver);
	thread->remains.bury = bury;
}

static void switched_in(struct preempt_notifier *notifier, int cpu)
{
	struct uintr_thread *thread = container_of(notifier, struct uintr_thread, notifier);
	unsigned long flags;
	bool merged;

	if (current->mm != thread->mm)
		return;
	local_irq_save(flags);
	uintr_state_load(&thread->state, &merged);
	local_irq_restore(flags);
	thread->stats.switched_in++;
	thread->stats.merged += merged;
	thread->stats.migrated += thread->cpu != cpu;
	thread->cpu = cpu;
}

/* The runqueue is locked and interrupts are off. */
static void switched_out(struct preempt_notifier *notifier, struct task_struct *next)
{
	struct uintr_thread *thread = container_of(notifier, struct uintr_thread, notifier);

	if (READ_ONCE(current->__state) == TASK_DEAD) {
		let_go(thread);
		uintr_bury(&thread->remains);
		return;
	}
	uintr_state_save(&thread->state);
	thread->stats.switched_out++;
}

/* A thread that carries nothing yet; not in its list. */
static struct uintr_thread *thread_new(gfp_t gfp)
{
	struct uintr_thread *thread = kzalloc(sizeof(*thread), gfp);

	if (!thread)
		return NULL;
	preempt_notifier_init(&thread->notifier, &callbacks);
	thread->mm = current->mm;
	mmgrab(thread->mm);
	__module_get(THIS_MODULE);
	return thread;
}

/* Enters it in the calling thread's list. Interrupts off. */
static void thread_enter(struct uintr_thread *thread)
{
	thread->cpu = smp_processor_id();
	preempt_notifier_register(&thread->notifier);
}

int uintr_thread_receive(struct uintr_receiver *receiver, u64 handler, u64 stack_adjust)
{
	struct uintr_thread *thread = uintr_thread_current(), *fresh = NULL;
	unsigned long flags;
	bool merged;

	if (!thread) {
		fresh = thread_new(GFP_KERNEL_ACCOUNT);
		if (!fresh)
			return -ENOMEM;
		thread = fresh;
	} else if (thread->receiver) {
		return -EBUSY;
	}
	local_irq_save(flags);
	thread->receiver = uintr_receiver_get(receiver);
	thread->state.upid = &receiver->upid;
	thread->state.handler = handler;
	thread->state.stack_adjust = stack_adjust;
	thread->state.pending = 0;
	thread->state.enabled = false;
	memset(&thread->stats, 0, sizeof(thread->stats));
	if (fresh)
		thread_enter(fresh);
	uintr_state_load(&thread->state, &merged);
	local_irq_restore(flags);
	return 0;
}

int uintr_thread_stop_receiving(void)
{
	struct uintr_thread *thread = uintr_thread_current();
	struct uintr_receiver *receiver;
	unsigned long flags;
	bool merged;

	if (!thread || !thread->receiver)
		return -EINVAL;
	if (!thread->table) {
		local_irq_save(flags);
		preempt_notifier_unregister(&thread->notifier);
		let_go(thread);
		local_irq_restore(flags);
		/* The caller's open device keeps the module; nothing else looks at the thread's structure. */
		bury(&thread->remains);
		return 0;
	}
	local_irq_save(flags);
	receiver = thread->receiver;
	uintr_state_clear(&thread->state);
	uintr_receiver_retire(receiver);
	thread->receiver = NULL;
	thread->state.upid = NULL;
	uintr_state_load(&thread->state, &merged);
	local_irq_restore(flags);
	uintr_receiver_put(receiver);
	return 0;
}

int uintr_thread_set_stack(u64 stack_adjust)
{
	struct uintr_thread *thread = uintr_thread_current();

	if (!thread || !thread->receiver)
		return -EOPNOTSUPP;
	preempt_disable();
	uintr_state_set_stack(&thread->state, stack_adjust);
	preempt_enable();
	return 0;
}

struct uintr_receiver *uintr_thread_receiver(void)
{
	struct uintr_thread *thread = uintr_thread_current();

	return thread ? thread->receiver : NULL;
}

const struct uintr_stats *uintr_thread_stats(void)
{
	struct uintr_thread *thread = uintr_thread_current();

	return thread && thread->receiver ? &thread->stats : NULL;
}

int uintr_thread_send(struct uintr_table *table, gfp_t gfp)
{
	struct uintr_thread *thread = uintr_thread_current(), *fresh = NULL;
	unsigned long flags;
	bool merged;

	if (!thread) {
		fresh = thread_new(gfp);
		if (!fresh)
			return -ENOMEM;
		thread = fresh;
	} else if (thread->table) {
		return -EALREADY;
	}
	local_irq_save(flags);
	/* Off and on again, so that a receiver's pending interrupts and flag are those of this moment. */
	if (!fresh)
		uintr_state_save(&thread->state);
	thread->table = uintr_table_get(table);
	thread->state.entries = uintr_table_entries(table);
	if (fresh)
		thread_enter(fresh);
	uintr_state_load(&thread->state, &merged);
	local_irq_restore(flags);
	return 0;
}

void uintr_thread_forget(void)
{
	struct uintr_thread *thread = uintr_thread_current();
	unsigned long flags;

	if (!thread)
		return;
	local_irq_save(flags);
	preempt_notifier_unregister(&thread->notifier);
	let_go(thread);
	local_irq_restore(flags);
	uintr_bury(&thread->remains);
}

void uintr_thread_suspend(void)
{
	struct uintr_thread *thread = uintr_thread_current();

	if (thread)
		uintr_state_save(&thread->state);
}

void uintr_thread_resume(void)
{
	struct uintr_thread *thread = uintr_thread_current();
	bool merged;

	if (thread)
		uintr_state_load(&thread->state, &merged);
}
