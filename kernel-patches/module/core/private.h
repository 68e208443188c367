/* SPDX-License-Identifier: GPL-2.0 */
/* What the files of the core share with each other, and with nobody else. */
#ifndef UINTR_CORE_PRIVATE_H
#define UINTR_CORE_PRIVATE_H

#undef pr_fmt
#define pr_fmt(fmt) "uintr: " fmt

#include <linux/atomic.h>
#include <linux/llist.h>
#include <linux/refcount.h>
#include <linux/types.h>
#include <uintr_uapi.h>

struct mm_struct;
struct file;

/* ---- hardware.c ---------------------------------------------------------------------------------------------- */

/* User posted-interrupt descriptor; the processor wants it aligned to 64 bytes and reads and writes 16 of them. */
struct uintr_upid {
	u64 status;	/* ON, SN, notification vector and destination */
	u64 pir;	/* posted, one bit a vector */
} __aligned(64);

/* Entry of a table of senders. */
struct uintr_uitte {
	u64 target;	/* valid, vector: always written by one store */
	u64 upid;	/* address of the descriptor, also while the entry is not valid */
} __aligned(16);

#define UINTR_UITTE_VALID	1ull

/* The state of one thread that the processor holds while the thread runs. */
struct uintr_state {
	struct uintr_upid *upid;	/* NULL: the thread receives nothing */
	struct uintr_uitte *entries;	/* NULL: the thread sends nothing */
	u64 handler;
	u64 stack_adjust;
	u64 pending;			/* UIRR while the thread is switched out */
	bool enabled;			/* UIF while the thread is switched out */
};

int uintr_hardware_check(void);
void uintr_cpu_enable(void);
void uintr_cpu_disable(void *unused);
u32 uintr_notification_vector(void);
bool uintr_x2apic(void);
u64 uintr_stray_notifications(void);
void uintr_upid_init(struct uintr_upid *upid);
/* Interrupts off in these three. */
void uintr_state_load(struct uintr_state *state, bool *merged);
void uintr_state_save(struct uintr_state *state);
void uintr_state_clear(struct uintr_state *state);
/* Changes the calling CPU's stack register; preemption off. */
void uintr_state_set_stack(struct uintr_state *state, u64 adjust);

/* ---- burial.c ------------------------------------------------------------------------------------------------ */

/* Something that died where nothing may sleep, and what is to be done with it where one may, after an RCU grace
 * period.
 */
struct uintr_remains {
	struct llist_node node;
	void (*bury)(struct uintr_remains *remains);
};

/* From any context, also with a runqueue locked. */
void uintr_bury(struct uintr_remains *remains);
/* Waits until everything is buried and no code of a burial runs. */
void uintr_burial_drain(void);

/* ---- receiver.c ---------------------------------------------------------------------------------------------- */

/* One registration of a receiver. */
struct uintr_receiver {
	struct uintr_upid upid;	/* first: it has the alignment */
	refcount_t refs;	/* the registered thread, each vector descriptor, each entry of a table */
	bool active;		/* a thread is registered with it */
};

int uintr_receivers_init(void);
void uintr_receivers_exit(void);
struct uintr_receiver *uintr_receiver_new(void);
struct uintr_receiver *uintr_receiver_get(struct uintr_receiver *receiver);
void uintr_receiver_put(struct uintr_receiver *receiver);
/* The thread is not registered any more. From any context. */
void uintr_receiver_retire(struct uintr_receiver *receiver);
u64 uintr_receivers_active(void);
u64 uintr_receivers_existing(void);

/* ---- table.c ------------------------------------------------------------------------------------------------- */

struct uintr_table;

void uintr_tables_init(void);
void uintr_tables_exit(void);
/* The table of the current address space, NULL if it has none. No reference is taken: it stays until the address
 * space ends, which it cannot while the caller runs in it. From any context of the current thread.
 */
struct uintr_table *uintr_table_current(void);
/* The same, made if there is none. */
struct uintr_table *uintr_table_make(void);
struct uintr_uitte *uintr_table_entries(struct uintr_table *table);
/* Gives the current address space this table. -EBUSY: it has one. */
int uintr_table_attach(struct uintr_table *table);
/* What a table grants lasts as long as an address space has it, or somebody else owns it. The caller's address space has
 * it when it is owned; it is not disowned with references to it all gone.
 */
void uintr_table_own(struct uintr_table *table);
void uintr_table_disown(struct uintr_table *table);
struct uintr_table *uintr_table_get(struct uintr_table *table);
void uintr_table_put(struct uintr_table *table);
int uintr_table_add(struct uintr_table *table, struct uintr_receiver *receiver, unsigned int vector);
int uintr_table_remove(struct uintr_table *table, unsigned int index);
u64 uintr_tables_existing(void);

/* ---- thread.c ------------------------------------------------------------------------------------------------ */

struct uintr_thread;

/* What the calling thread carries, NULL if nothing. */
struct uintr_thread *uintr_thread_current(void);
int uintr_thread_receive(struct uintr_receiver *receiver, u64 handler, u64 stack_adjust);
int uintr_thread_stop_receiving(void);
int uintr_thread_set_stack(u64 stack_adjust);
/* The calling thread's receiver, no reference taken; NULL if it is not registered. */
struct uintr_receiver *uintr_thread_receiver(void);
const struct uintr_stats *uintr_thread_stats(void);
/* Lets the calling thread use the table of its address space. Callable with interrupts off if gfp allows.
 * 0: it can now; -EALREADY: it could before.
 */
int uintr_thread_send(struct uintr_table *table, gfp_t gfp);
/* Ends all that the calling thread carries; from any context. */
void uintr_thread_forget(void);
/* Around a loss of the processor's state that no context switch covers. Interrupts off. */
void uintr_thread_suspend(void);
void uintr_thread_resume(void);

/* ---- hooks.c, vector_fd.c ------------------------------------------------------------------------------------ */

int uintr_hooks_init(void);
void uintr_hooks_exit(void);

int uintr_vector_fd_new(struct uintr_receiver *receiver, unsigned int vector);
/* The receiver (no reference taken) and vector of an open descriptor; NULL if it is none of ours. */
struct uintr_receiver *uintr_vector_of(struct file *file, unsigned int *vector);

#endif
