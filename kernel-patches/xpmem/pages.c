// SPDX-License-Identifier: GPL-2.0
/* Pages: found in the owner's memory when an attachment is touched, taken away before they go there. */
#include "private.h"

#include <linux/lockdep.h>
#include <linux/mm.h>
#include <linux/sched/mm.h>
#include <linux/version.h>

/* A task that takes entries out of page tables. */
struct zapper {
	struct list_head list;
	struct task_struct *task;
};

static LIST_HEAD(zappers);

/* Whether this runs within this task's own zap. */
static bool zapping(void)
{
	struct zapper *zapper;
	bool found = false;

	spin_lock(&xpmem_registry);
	list_for_each_entry(zapper, &zappers, list)
		found |= zapper->task == current;
	spin_unlock(&xpmem_registry);
	return found;
}

void xpmem_zap(struct segment *segment, unsigned long start, unsigned long end)
{
	struct zapper zapper = { .task = current };

	spin_lock(&xpmem_registry);
	list_add(&zapper.list, &zappers);
	spin_unlock(&xpmem_registry);
	/*
	 * To lockdep a notifier within a notifier, and an i_mmap_rwsem taken there, are a deadlock. They are none here:
	 * the inner notifier is of an attacher's memory and returns at once (`zapping`), and this i_mmap_rwsem is that
	 * of no file with pages: whoever holds it waits for nothing.
	 */
	lockdep_off();
	unmap_mapping_range(xpmem_node->i_mapping, ((loff_t)segment->index << INDEX_SHIFT) + start, end - start, 1);
	lockdep_on();
	spin_lock(&xpmem_registry);
	list_del(&zapper.list);
	spin_unlock(&xpmem_registry);
}

/* The owner's memory is about to change, or to go. */
static bool invalidate(struct mmu_interval_notifier *notifier, const struct mmu_notifier_range *range,
		       unsigned long sequence)
{
	struct segment *segment = container_of(notifier, struct segment, notifier);
	unsigned long start = max(range->start, segment->start), end = min(range->end, segment->end);

	if (!mmu_notifier_range_blockable(range))
		return false;
	/* What goes is an attachment, and of attachments nobody has a page: none is ever found in one. */
	if (zapping())
		return true;
	mutex_lock(&segment->lock);
	mmu_interval_set_seq(notifier, sequence);
	mutex_unlock(&segment->lock);
	if (start < end)
		xpmem_zap(segment, start, end);
	return true;
}

const struct mmu_interval_notifier_ops xpmem_notifier_operations = {
	.invalidate = invalidate,
};

/* The owner is busy changing its mappings. */
static vm_fault_t await_owner(struct vm_fault *vmf, struct mm_struct *mm)
{
	if (!(vmf->flags & FAULT_FLAG_ALLOW_RETRY)) {
		cond_resched();
		return VM_FAULT_NOPAGE;
	}
	if (vmf->flags & FAULT_FLAG_RETRY_NOWAIT)
		return VM_FAULT_RETRY;
	/* It may wait for our mmap_lock just so: to wait for its, we give ours away. Then all begins anew. */
	mmap_read_unlock(vmf->vma->vm_mm);
	if (!mmap_read_lock_killable(mm))
		mmap_read_unlock(mm);
	return VM_FAULT_RETRY;
}

static long find_page(struct mm_struct *mm, unsigned long address, unsigned int flags, struct page **page)
{
#if LINUX_VERSION_CODE < KERNEL_VERSION(6, 5, 0)
	return get_user_pages_remote(mm, address, 1, flags, page, NULL, NULL);
#else
	return get_user_pages_remote(mm, address, 1, flags, page, NULL);
#endif
}

/* Under mmap_lock of the owner, for reading. */
static vm_fault_t insert_page(struct vm_fault *vmf, struct permit *permit, unsigned long address)
{
	/* As the mapping may be, whatever it is now: mprotect does not ask again. */
	bool writes = vmf->vma->vm_flags & VM_MAYWRITE;
	struct segment *segment = permit->segment;
	/* Waits for an invalidation that has begun: it needs no lock that is held here. */
	unsigned long sequence = mmu_interval_read_begin(&segment->notifier);
	struct page *page;
	vm_fault_t result = VM_FAULT_SIGBUS;
	long found = find_page(segment->mm, address, FOLL_FORCE | (writes ? FOLL_WRITE : 0), &page);

	if (found != 1)
		return found == -ENOMEM ? VM_FAULT_OOM : VM_FAULT_SIGBUS;
	mutex_lock(&segment->lock);
	if (mmu_interval_read_retry(&segment->notifier, sequence)) {
		/* Touched again, the next page is found. */
		result = VM_FAULT_NOPAGE;
	} else if (!segment->removed && !permit->released) {
		unsigned int old = memalloc_noreclaim_save();

		result = vmf_insert_pfn(vmf->vma, vmf->address, page_to_pfn(page));
		memalloc_noreclaim_restore(old);
	}
	mutex_unlock(&segment->lock);
	put_page(page);
	return result;
}

vm_fault_t xpmem_fault(struct vm_fault *vmf)
{
	struct attachment *attachment = vmf->vma->vm_private_data;
	struct permit *permit = attachment->permit;
	struct mm_struct *mm = permit->segment->mm;
	unsigned long address = (vmf->pgoff << PAGE_SHIFT) & (HIGHEST - 1);
	/* The owner itself has attached: its lock is held. */
	bool owner = mm == vmf->vma->vm_mm;
	vm_fault_t result;

	if (READ_ONCE(permit->segment->removed) || READ_ONCE(permit->released) || !mmget_not_zero(mm))
		return VM_FAULT_SIGBUS;
	if (owner) {
		result = insert_page(vmf, permit, address);
	} else if (mmap_read_trylock(mm)) {
		result = insert_page(vmf, permit, address);
		mmap_read_unlock(mm);
	} else {
		result = await_owner(vmf, mm);
	}
	/* An owner that was killed meanwhile is not to be taken apart under the locks of this one. */
	mmput_async(mm);
	return result;
}
