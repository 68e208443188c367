// SPDX-License-Identifier: GPL-2.0
/* Attachments: mappings of pieces of a segment, which are whole, and where they were attached, or not there at all. */
#include "private.h"

#include <linux/mm.h>
#include <linux/mman.h>
#include <linux/slab.h>
#include <linux/uaccess.h>
#include <linux/version.h>

/* Those that ATTACH is about to map. */
static LIST_HEAD(attaching);

static void free_attachment(struct kref *kref)
{
	struct attachment *attachment = container_of(kref, struct attachment, references);

	spin_lock(&xpmem_registry);
	list_del(&attachment->list);
	spin_unlock(&xpmem_registry);
	xpmem_put_permit(attachment->permit);
	kfree(attachment);
}

static void attachment_open(struct vm_area_struct *vma)
{
	struct attachment *attachment = vma->vm_private_data;

	kref_get(&attachment->references);
}

static void attachment_close(struct vm_area_struct *vma)
{
	struct attachment *attachment = vma->vm_private_data;

	kref_put(&attachment->references, free_attachment);
}

static int attachment_may_split(struct vm_area_struct *vma, unsigned long address)
{
	return -EINVAL;
}

static int attachment_mremap(struct vm_area_struct *vma)
{
	return -EINVAL;
}

static const struct vm_operations_struct attachment_operations = {
	.open = attachment_open,
	.close = attachment_close,
	.may_split = attachment_may_split,
	.mremap = attachment_mremap,
	.fault = xpmem_fault,
};

static void change_flags(struct vm_area_struct *vma, vm_flags_t set, vm_flags_t clear)
{
#if LINUX_VERSION_CODE < KERNEL_VERSION(6, 3, 0)
	vma->vm_flags = (vma->vm_flags & ~clear) | set;
#else
	vm_flags_mod(vma, set, clear);
#endif
}

int xpmem_mmap(struct file *file, struct vm_area_struct *vma)
{
	struct attachment *attachment;
	bool found = false;

	spin_lock(&xpmem_registry);
	list_for_each_entry(attachment, &attaching, list) {
		found = attachment->maker == current && !attachment->permit->released;
		if (found) {
			attachment->mm = vma->vm_mm;
			attachment->start = vma->vm_start;
			attachment->end = vma->vm_end;
			list_move(&attachment->list, &attachment->permit->attachments);
			kref_get(&attachment->references);
			break;
		}
	}
	spin_unlock(&xpmem_registry);
	if (!found)
		return -EACCES;
	vma->vm_private_data = attachment;
	vma->vm_ops = &attachment_operations;
	change_flags(vma, VM_DONTCOPY | VM_DONTDUMP | VM_IO | VM_DONTEXPAND | VM_PFNMAP,
		     VM_MAYEXEC | (attachment->permit->writes ? 0 : VM_MAYWRITE));
	return 0;
}

/* Maps it, by way of xpmem_mmap. */
static long map(struct file *file, struct permit *permit, const struct xpmem_cmd_attach *call)
{
	struct segment *segment = permit->segment;
	unsigned long size = PAGE_ALIGN(call->size), place;
	unsigned long protection = PROT_READ | (permit->writes ? PROT_WRITE : 0);
	struct attachment *attachment;
	long result;

	if (READ_ONCE(segment->removed))
		return -ENOENT;
	if (call->offset < 0 || !PAGE_ALIGNED(call->offset) || !PAGE_ALIGNED(call->vaddr))
		return -EINVAL;
	if (!call->size || size < call->size || size > segment->end - segment->start ||
	    call->offset > segment->end - segment->start - size)
		return -EINVAL;
	attachment = kzalloc(sizeof(*attachment), GFP_KERNEL);
	if (!attachment)
		return -ENOMEM;
	kref_init(&attachment->references);
	kref_get(&permit->references);
	attachment->permit = permit;
	attachment->maker = current;
	spin_lock(&xpmem_registry);
	list_add(&attachment->list, &attaching);
	spin_unlock(&xpmem_registry);
	place = ((unsigned long)segment->index << INDEX_SHIFT) + segment->start + call->offset;
	result = vm_mmap(file, call->vaddr, size, protection, MAP_SHARED | (call->vaddr ? MAP_FIXED : 0), place);
	kref_put(&attachment->references, free_attachment);
	return result;
}

long xpmem_attach(struct file *file, void __user *argument)
{
	struct xpmem_cmd_attach call;
	struct process *process, *owner;
	struct permit *permit = NULL;
	long result;

	if (copy_from_user(&call, argument, sizeof(call)))
		return -EFAULT;
	spin_lock(&xpmem_registry);
	process = xpmem_own();
	if (process)
		permit = xpmem_find_permit(call.apid, &owner);
	if (permit && owner == process)
		kref_get(&permit->references);
	spin_unlock(&xpmem_registry);
	if (!permit)
		return -ENOENT;
	if (owner != process)
		return -EACCES;
	result = map(file, permit, &call);
	xpmem_put_permit(permit);
	if (IS_ERR_VALUE(result))
		return result;
	call.vaddr = result;
	if (!copy_to_user(argument, &call, sizeof(call)))
		return 0;
	vm_munmap(call.vaddr, PAGE_ALIGN(call.size));
	return -EFAULT;
}

long xpmem_detach(void __user *argument)
{
	struct xpmem_cmd_detach call;
	struct vm_area_struct *vma;
	unsigned long start = 0, size = 0;

	if (copy_from_user(&call, argument, sizeof(call)))
		return -EFAULT;
	mmap_read_lock(current->mm);
	vma = vma_lookup(current->mm, call.vaddr);
	if (vma && vma->vm_ops == &attachment_operations) {
		start = vma->vm_start;
		size = vma->vm_end - start;
	}
	mmap_read_unlock(current->mm);
	return size ? vm_munmap(start, size) : -EINVAL;
}
