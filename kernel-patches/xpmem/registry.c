// SPDX-License-Identifier: GPL-2.0
/* Which processes there are, and what each has. */
#include "private.h"

#include <linux/sched.h>
#include <linux/sched/mm.h>
#include <linux/slab.h>

DEFINE_SPINLOCK(xpmem_registry);
struct inode *xpmem_node;
static unsigned int open_files;
static LIST_HEAD(processes);

s64 xpmem_new_id(u32 *last)
{
	return (s64)++*last << 32 | current->tgid;
}

struct process *xpmem_own(void)
{
	struct process *process;

	list_for_each_entry(process, &processes, list)
		if (process->tgid == current->tgid && process->mm == current->mm)
			return process;
	return NULL;
}

struct segment *xpmem_find_segment(s64 id, struct process **owner)
{
	struct process *process;
	struct segment *segment;

	list_for_each_entry(process, &processes, list) {
		list_for_each_entry(segment, &process->segments, list) {
			if (segment->id == id) {
				*owner = process;
				return segment;
			}
		}
	}
	return NULL;
}

struct permit *xpmem_find_permit(s64 id, struct process **owner)
{
	struct process *process;
	struct permit *permit;

	list_for_each_entry(process, &processes, list) {
		list_for_each_entry(permit, &process->permits, list) {
			if (permit->id == id) {
				*owner = process;
				return permit;
			}
		}
	}
	return NULL;
}

/* Takes a process out of the list; under the registry's lock. What it had is for `tear_down`. */
static void unlist(struct process *process, struct list_head *permits, struct list_head *segments)
{
	list_del_init(&process->list);
	list_splice_init(&process->permits, permits);
	list_splice_init(&process->segments, segments);
}

static void tear_down(struct list_head *permits, struct list_head *segments)
{
	struct permit *permit, *next_permit;
	struct segment *segment, *next_segment;

	list_for_each_entry_safe(permit, next_permit, permits, list)
		xpmem_end_permit(permit);
	list_for_each_entry_safe(segment, next_segment, segments, list)
		xpmem_end_segment(segment);
}

int xpmem_open(struct inode *inode, struct file *file)
{
	struct process *fresh = kzalloc(sizeof(*fresh), GFP_KERNEL), *process;

	if (!fresh)
		return -ENOMEM;
	spin_lock(&xpmem_registry);
	process = xpmem_own();
	if (!process) {
		process = fresh;
		fresh = NULL;
		INIT_LIST_HEAD(&process->segments);
		INIT_LIST_HEAD(&process->permits);
		process->tgid = current->tgid;
		mmgrab(current->mm);
		process->mm = current->mm;
		list_add(&process->list, &processes);
	}
	process->files++;
	file->private_data = process;
	if (!open_files++) {
		ihold(inode);
		xpmem_node = inode;
	}
	file->f_mapping = xpmem_node->i_mapping;
	spin_unlock(&xpmem_registry);
	kfree(fresh);
	return 0;
}

/* A process closes one of its descriptors, any of them, or ends: all that it has here ends. */
int xpmem_flush(struct file *file, fl_owner_t owner)
{
	struct process *process, *next;
	LIST_HEAD(permits);
	LIST_HEAD(segments);

	spin_lock(&xpmem_registry);
	list_for_each_entry_safe(process, next, &processes, list)
		if (process->tgid == current->tgid)
			unlist(process, &permits, &segments);
	spin_unlock(&xpmem_registry);
	tear_down(&permits, &segments);
	return 0;
}

/* The last descriptor of a file has gone, wherever it was, and so have its attachments. */
int xpmem_release_file(struct inode *inode, struct file *file)
{
	struct process *process = file->private_data;
	struct inode *last = NULL;
	LIST_HEAD(permits);
	LIST_HEAD(segments);
	bool ended;

	spin_lock(&xpmem_registry);
	ended = !--process->files;
	if (ended)
		unlist(process, &permits, &segments);
	spin_unlock(&xpmem_registry);
	tear_down(&permits, &segments);
	if (ended) {
		mmdrop(process->mm);
		kfree(process);
	}
	spin_lock(&xpmem_registry);
	if (!--open_files)
		last = xpmem_node;
	spin_unlock(&xpmem_registry);
	if (last)
		iput(last);
	return 0;
}
