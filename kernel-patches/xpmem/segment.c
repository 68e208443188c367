// SPDX-License-Identifier: GPL-2.0
/* Segments: what an owner makes of a part of its memory, and removes. */
#include "private.h"

#include <linux/cred.h>
#include <linux/idr.h>
#include <linux/mm.h>
#include <linux/sched/mm.h>
#include <linux/slab.h>
#include <linux/uaccess.h>

#define MAX_INDEX 0xffff
static DEFINE_IDA(indexes);

static void free_segment(struct kref *kref)
{
	struct segment *segment = container_of(kref, struct segment, references);

	ida_free(&indexes, segment->index);
	mmdrop(segment->mm);
	kfree(segment);
}

void xpmem_put_segment(struct segment *segment)
{
	kref_put(&segment->references, free_segment);
}

void xpmem_end_segment(struct segment *segment)
{
	mutex_lock(&segment->lock);
	segment->removed = true;
	mutex_unlock(&segment->lock);
	xpmem_zap(segment, segment->start, segment->end);
	mmu_interval_notifier_remove(&segment->notifier);
	xpmem_put_segment(segment);
}

long xpmem_make(void __user *argument)
{
	struct xpmem_cmd_make call;
	struct process *process;
	struct segment *segment;
	long error;

	if (copy_from_user(&call, argument, sizeof(call)))
		return -EFAULT;
	if (call.permit_type != XPMEM_PERMIT_MODE || call.permit_value & ~0777ull)
		return -EINVAL;
	if (!PAGE_ALIGNED(call.vaddr) || call.vaddr >= min(HIGHEST, TASK_SIZE))
		return -EINVAL;
	if (call.size == (size_t)-1)
		call.size = min(HIGHEST, TASK_SIZE) - call.vaddr;
	if (!call.size || !PAGE_ALIGNED(call.size) || call.size > min(HIGHEST, TASK_SIZE) - call.vaddr)
		return -EINVAL;

	segment = kzalloc(sizeof(*segment), GFP_KERNEL);
	if (!segment)
		return -ENOMEM;
	segment->index = ida_alloc_max(&indexes, MAX_INDEX, GFP_KERNEL);
	if (segment->index < 0) {
		error = segment->index;
		kfree(segment);
		return error;
	}
	kref_init(&segment->references);
	mutex_init(&segment->lock);
	mmgrab(current->mm);
	segment->mm = current->mm;
	segment->start = call.vaddr;
	segment->end = call.vaddr + call.size;
	segment->mode = call.permit_value;
	segment->uid = current_euid();
	segment->gid = current_egid();
	error = mmu_interval_notifier_insert(&segment->notifier, segment->mm, segment->start, call.size,
					     &xpmem_notifier_operations);
	if (error) {
		xpmem_put_segment(segment);
		return error;
	}

	spin_lock(&xpmem_registry);
	process = xpmem_own();
	if (process) {
		segment->id = call.segid = xpmem_new_id(&process->last_segment);
		list_add(&segment->list, &process->segments);
	}
	spin_unlock(&xpmem_registry);
	if (!process) {
		xpmem_end_segment(segment);
		return -ENOENT;
	}
	return copy_to_user(argument, &call, sizeof(call)) ? -EFAULT : 0;
}

long xpmem_remove(void __user *argument)
{
	struct xpmem_cmd_remove call;
	struct process *owner;
	struct segment *segment;
	long error = 0;

	if (copy_from_user(&call, argument, sizeof(call)))
		return -EFAULT;
	spin_lock(&xpmem_registry);
	segment = xpmem_find_segment(call.segid, &owner);
	if (!segment)
		error = -ENOENT;
	else if (owner != xpmem_own())
		error = -EACCES;
	else
		list_del(&segment->list);
	spin_unlock(&xpmem_registry);
	if (!error)
		xpmem_end_segment(segment);
	return error;
}
