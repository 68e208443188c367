/* SPDX-License-Identifier: GPL-2.0 */
/*
 * /dev/xpmem for tests: memory of one process in the address space of another, by the user interface of XPMEM. Here is
 * what its files share with each other, and with nobody else.
 *
 * An owner makes a segment of a part of its memory; others get a permit for it and attach pieces. An attachment has no
 * pages of its own: each is found in the owner's memory when it is first touched, and no reference to it is kept. That
 * holds because the owner's memory tells (an interval notifier for each segment) before any of its pages goes or is
 * replaced, and then the entries of the attachers' page tables go first.
 *
 * They are found without any lock of the attachers: all attachments are mappings of one address_space, in which each
 * segment has a part of its own, at its index << INDEX_SHIFT, where a page's place is its address at the owner.
 *
 * Locks, outermost first: mmap_lock of the attacher; mmap_lock of the owner, only ever tried; segment->lock;
 * xpmem_registry. segment->lock lies within reclaim (notifiers run there), so nothing under it may reclaim.
 */
#ifndef XPMEM_PRIVATE_H
#define XPMEM_PRIVATE_H

#include <linux/fs.h>
#include <linux/kref.h>
#include <linux/list.h>
#include <linux/mm_types.h>
#include <linux/mmu_notifier.h>
#include <linux/mutex.h>
#include <linux/spinlock.h>
#include <linux/types.h>
#include <linux/uidgid.h>

#include "xpmem_uapi.h"

/* Bytes of the address_space for a segment: all that a process has unless it asks for more. */
#define INDEX_SHIFT 47
#define HIGHEST (1ul << INDEX_SHIFT)

/* ---- registry.c ---------------------------------------------------------------------------------------------- */

/* What a process (thread group) has, from its first open to its first close. */
struct process {
	struct list_head list;
	struct list_head segments;
	struct list_head permits;
	pid_t tgid;
	/* Only compared: after an exec the process is another one. */
	struct mm_struct *mm;
	/* Files opened by it; the last one takes it along. */
	unsigned int files;
	/* They begin anew with the process, so that numbers come again. */
	u32 last_segment, last_permit;
};

/* All lists, and the counts of files. */
extern spinlock_t xpmem_registry;
/* Of the node that was opened first: whichever node a file is opened by, its mappings are found in this one. */
extern struct inode *xpmem_node;

s64 xpmem_new_id(u32 *last);
/* The caller's, or NULL. As the next two, under the registry's lock. */
struct process *xpmem_own(void);
struct segment *xpmem_find_segment(s64 id, struct process **owner);
struct permit *xpmem_find_permit(s64 id, struct process **owner);
/* The device's. */
int xpmem_open(struct inode *inode, struct file *file);
int xpmem_flush(struct file *file, fl_owner_t owner);
int xpmem_release_file(struct inode *inode, struct file *file);

/* ---- segment.c ----------------------------------------------------------------------------------------------- */

struct segment {
	struct list_head list;
	struct kref references;
	s64 id;
	int index;
	umode_t mode;
	kuid_t uid;
	kgid_t gid;
	struct mm_struct *mm;
	unsigned long start, end;
	struct mmu_interval_notifier notifier;
	/* Held while a page is put into an attacher's table: it is there before a notifier's zap, or sees that it came. */
	struct mutex lock;
	bool removed;
};

void xpmem_put_segment(struct segment *segment);
/* Ends a segment that is in no list any more, with its list's reference. */
void xpmem_end_segment(struct segment *segment);
/* Calls. */
long xpmem_make(void __user *argument);
long xpmem_remove(void __user *argument);

/* ---- permit.c ------------------------------------------------------------------------------------------------ */

struct permit {
	struct list_head list;
	struct kref references;
	s64 id;
	bool writes;
	struct segment *segment;
	struct list_head attachments;
	/* Written under segment->lock. */
	bool released;
};

void xpmem_put_permit(struct permit *permit);
/* As xpmem_end_segment, for a permit. */
void xpmem_end_permit(struct permit *permit);
/* Calls. */
long xpmem_get(void __user *argument);
long xpmem_release(void __user *argument);

/* ---- attachment.c -------------------------------------------------------------------------------------------- */

struct attachment {
	/* In permit->attachments, or in `attaching`. */
	struct list_head list;
	/* Of each of its mappings (two, while mremap tries), and of its maker. */
	struct kref references;
	struct permit *permit;
	struct task_struct *maker;
	struct mm_struct *mm;
	unsigned long start, end;
};

/* The device's: for ATTACH alone. */
int xpmem_mmap(struct file *file, struct vm_area_struct *vma);
/* Calls. */
long xpmem_attach(struct file *file, void __user *argument);
long xpmem_detach(void __user *argument);

/* ---- pages.c ------------------------------------------------------------------------------------------------- */

/* Of each segment's notifier. */
extern const struct mmu_interval_notifier_ops xpmem_notifier_operations;

/* Takes the pages of this part of the segment from all who have attached it. */
void xpmem_zap(struct segment *segment, unsigned long start, unsigned long end);
/* Of an attachment's mapping. */
vm_fault_t xpmem_fault(struct vm_fault *vmf);

#endif
