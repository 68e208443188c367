// SPDX-License-Identifier: GPL-2.0
/* Permits: what others get for a segment, and release. */
#include "private.h"

#include <linux/capability.h>
#include <linux/cred.h>
#include <linux/mm.h>
#include <linux/slab.h>
#include <linux/uaccess.h>

static void free_permit(struct kref *kref)
{
	struct permit *permit = container_of(kref, struct permit, references);

	xpmem_put_segment(permit->segment);
	kfree(permit);
}

void xpmem_put_permit(struct permit *permit)
{
	kref_put(&permit->references, free_permit);
}

void xpmem_end_permit(struct permit *permit)
{
	struct segment *segment = permit->segment;
	struct attachment *attachment;

	mutex_lock(&segment->lock);
	permit->released = true;
	mutex_unlock(&segment->lock);
	spin_lock(&xpmem_registry);
	while ((attachment = list_first_entry_or_null(&permit->attachments, struct attachment, list))) {
		unsigned long start = attachment->start, size = attachment->end - start;
		bool here = attachment->mm == current->mm;

		list_del_init(&attachment->list);
		spin_unlock(&xpmem_registry);
		/* What can't be unmapped (by an exec its memory is another one now) has no page, at least. */
		if (!here || vm_munmap(start, size))
			xpmem_zap(segment, segment->start, segment->end);
		spin_lock(&xpmem_registry);
	}
	spin_unlock(&xpmem_registry);
	xpmem_put_permit(permit);
}

/* As the kernel's own for System V's memory: one class of the mode counts, the first that fits. */
static bool permitted(const struct segment *segment, bool writes)
{
	unsigned int wanted = writes ? 6 : 4, mode = segment->mode;

	if (uid_eq(current_euid(), segment->uid))
		mode >>= 6;
	else if (in_egroup_p(segment->gid))
		mode >>= 3;
	return !(wanted & ~mode) || capable(CAP_IPC_OWNER);
}

long xpmem_get(void __user *argument)
{
	struct xpmem_cmd_get call;
	struct process *process, *owner;
	struct segment *segment;
	struct permit *permit;

	if (copy_from_user(&call, argument, sizeof(call)))
		return -EFAULT;
	if (call.flags != XPMEM_RDONLY && call.flags != XPMEM_RDWR)
		return -EINVAL;
	if (call.permit_type != XPMEM_PERMIT_MODE || call.permit_value)
		return -EINVAL;
	permit = kzalloc(sizeof(*permit), GFP_KERNEL);
	if (!permit)
		return -ENOMEM;

	spin_lock(&xpmem_registry);
	segment = xpmem_own() ? xpmem_find_segment(call.segid, &owner) : NULL;
	if (segment)
		kref_get(&segment->references);
	spin_unlock(&xpmem_registry);
	if (!segment) {
		kfree(permit);
		return -ENOENT;
	}
	kref_init(&permit->references);
	permit->writes = call.flags == XPMEM_RDWR;
	permit->segment = segment;
	INIT_LIST_HEAD(&permit->attachments);
	if (!permitted(segment, permit->writes)) {
		xpmem_put_permit(permit);
		return -EACCES;
	}

	spin_lock(&xpmem_registry);
	process = xpmem_own();
	if (process) {
		permit->id = call.apid = xpmem_new_id(&process->last_permit);
		list_add(&permit->list, &process->permits);
	}
	spin_unlock(&xpmem_registry);
	if (!process) {
		xpmem_put_permit(permit);
		return -ENOENT;
	}
	return copy_to_user(argument, &call, sizeof(call)) ? -EFAULT : 0;
}

long xpmem_release(void __user *argument)
{
	struct xpmem_cmd_release call;
	struct process *owner;
	struct permit *permit;
	long error = 0;

	if (copy_from_user(&call, argument, sizeof(call)))
		return -EFAULT;
	spin_lock(&xpmem_registry);
	permit = xpmem_find_permit(call.apid, &owner);
	if (!permit)
		error = -ENOENT;
	else if (owner != xpmem_own())
		error = -EACCES;
	else
		list_del(&permit->list);
	spin_unlock(&xpmem_registry);
	if (!error)
		xpmem_end_permit(permit);
	return error;
}
