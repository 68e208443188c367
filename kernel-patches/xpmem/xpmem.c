// SPDX-License-Identifier: GPL-2.0
/*
 * /dev/xpmem for tests: memory of one process in the address space of another, by the user interface of XPMEM.
 *
 * An owner makes a segment of a part of its memory; others get a permit for it and attach pieces. An attachment has no
 * pages of its own: each is found in the owner's memory when it is first touched, and no reference to it is kept. That
 * holds because the owner's memory tells (an interval notifier for each segment) before any of its pages goes or is
 * replaced, and then the entries of the attachers' page tables go first.
 *
 * They are found without any lock of the attachers: all attachments are mappings of one address_space, in which each
 * segment has a part of its own, at its index << INDEX_SHIFT, where a page's place is its address at the owner.
 *
 * Locks, outermost first: mmap_lock of the attacher; mmap_lock of the owner, only ever tried; segment->lock; registry.
 * segment->lock lies within reclaim (notifiers run there), so nothing under it may reclaim.
 */
#include <linux/capability.h>
#include <linux/cred.h>
#include <linux/fs.h>
#include <linux/idr.h>
#include <linux/kref.h>
#include <linux/lockdep.h>
#include <linux/miscdevice.h>
#include <linux/mm.h>
#include <linux/mman.h>
#include <linux/mmu_notifier.h>
#include <linux/module.h>
#include <linux/mutex.h>
#include <linux/sched/mm.h>
#include <linux/slab.h>
#include <linux/spinlock.h>
#include <linux/uaccess.h>
#include <linux/version.h>

#include "xpmem_uapi.h"

/* Bytes of the address_space for a segment: all that a process has unless it asks for more. */
#define INDEX_SHIFT 47
#define HIGHEST (1ul << INDEX_SHIFT)
#define MAX_INDEX 0xffff

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
};

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

/* A task that takes entries out of page tables. */
struct zapper {
	struct list_head list;
	struct task_struct *task;
};

/* All lists, and the counts of files. */
static DEFINE_SPINLOCK(registry);
static LIST_HEAD(processes);
static LIST_HEAD(attaching);
static LIST_HEAD(zappers);
static DEFINE_IDA(indexes);
static atomic_t last_number;

/* Of the node that was opened first: whichever node a file is opened by, its mappings are found in this one. */
static struct inode *node;
static unsigned int open_files;

static s64 new_id(void)
{
	s64 number;

	do
		number = atomic_inc_return(&last_number) & 0x7fffffff;
	while (!number);
	return number << 32 | current->tgid;
}

/* The caller's, or NULL. As the next two, under the registry's lock. */
static struct process *own(void)
{
	struct process *process;

	list_for_each_entry(process, &processes, list)
		if (process->tgid == current->tgid && process->mm == current->mm)
			return process;
	return NULL;
}

static struct segment *find_segment(s64 id, struct process **owner)
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

static struct permit *find_permit(s64 id, struct process **owner)
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

static void free_segment(struct kref *kref)
{
	struct segment *segment = container_of(kref, struct segment, references);

	ida_free(&indexes, segment->index);
	mmdrop(segment->mm);
	kfree(segment);
}

static void free_permit(struct kref *kref)
{
	struct permit *permit = container_of(kref, struct permit, references);

	kref_put(&permit->segment->references, free_segment);
	kfree(permit);
}

static void free_attachment(struct kref *kref)
{
	struct attachment *attachment = container_of(kref, struct attachment, references);

	spin_lock(&registry);
	list_del(&attachment->list);
	spin_unlock(&registry);
	kref_put(&attachment->permit->references, free_permit);
	kfree(attachment);
}

/* Whether this runs within this task's own zap. */
static bool zapping(void)
{
	struct zapper *zapper;
	bool found = false;

	spin_lock(&registry);
	list_for_each_entry(zapper, &zappers, list)
		found |= zapper->task == current;
	spin_unlock(&registry);
	return found;
}

/* Takes the pages of this part of the segment from all who have attached it. */
static void zap(struct segment *segment, unsigned long start, unsigned long end)
{
	struct zapper zapper = { .task = current };

	spin_lock(&registry);
	list_add(&zapper.list, &zappers);
	spin_unlock(&registry);
	/*
	 * To lockdep a notifier within a notifier, and an i_mmap_rwsem taken there, are a deadlock. They are none here:
	 * the inner notifier is of an attacher's memory and returns at once (`zapping`), and this i_mmap_rwsem is that
	 * of no file with pages: whoever holds it waits for nothing.
	 */
	lockdep_off();
	unmap_mapping_range(node->i_mapping, ((loff_t)segment->index << INDEX_SHIFT) + start, end - start, 1);
	lockdep_on();
	spin_lock(&registry);
	list_del(&zapper.list);
	spin_unlock(&registry);
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
		zap(segment, start, end);
	return true;
}

static const struct mmu_interval_notifier_ops notifier_operations = {
	.invalidate = invalidate,
};

/* Ends a segment that is in no list any more, with its list's reference. */
static void remove(struct segment *segment)
{
	mutex_lock(&segment->lock);
	segment->removed = true;
	mutex_unlock(&segment->lock);
	zap(segment, segment->start, segment->end);
	mmu_interval_notifier_remove(&segment->notifier);
	kref_put(&segment->references, free_segment);
}

/* As above, for a permit. */
static void release(struct permit *permit)
{
	struct segment *segment = permit->segment;
	struct attachment *attachment;

	mutex_lock(&segment->lock);
	permit->released = true;
	mutex_unlock(&segment->lock);
	spin_lock(&registry);
	while ((attachment = list_first_entry_or_null(&permit->attachments, struct attachment, list))) {
		unsigned long start = attachment->start, size = attachment->end - start;
		bool here = attachment->mm == current->mm;

		list_del_init(&attachment->list);
		spin_unlock(&registry);
		/* What can't be unmapped (by an exec its memory is another one now) has no page, at least. */
		if (!here || vm_munmap(start, size))
			zap(segment, segment->start, segment->end);
		spin_lock(&registry);
	}
	spin_unlock(&registry);
	kref_put(&permit->references, free_permit);
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
		release(permit);
	list_for_each_entry_safe(segment, next_segment, segments, list)
		remove(segment);
}

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

static vm_fault_t attachment_fault(struct vm_fault *vmf)
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

/* It is whole, and where it was attached, or is not there at all. */
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
	.fault = attachment_fault,
};

static void change_flags(struct vm_area_struct *vma, vm_flags_t set, vm_flags_t clear)
{
#if LINUX_VERSION_CODE < KERNEL_VERSION(6, 3, 0)
	vma->vm_flags = (vma->vm_flags & ~clear) | set;
#else
	vm_flags_mod(vma, set, clear);
#endif
}

/* For ATTACH alone. */
static int device_mmap(struct file *file, struct vm_area_struct *vma)
{
	struct attachment *attachment;
	bool found = false;

	spin_lock(&registry);
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
	spin_unlock(&registry);
	if (!found)
		return -EACCES;
	vma->vm_private_data = attachment;
	vma->vm_ops = &attachment_operations;
	change_flags(vma, VM_DONTCOPY | VM_DONTDUMP | VM_IO | VM_DONTEXPAND | VM_PFNMAP,
		     VM_MAYEXEC | (attachment->permit->writes ? 0 : VM_MAYWRITE));
	return 0;
}

static long make(void __user *argument)
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
	segment->id = new_id();
	segment->start = call.vaddr;
	segment->end = call.vaddr + call.size;
	segment->mode = call.permit_value;
	segment->uid = current_euid();
	segment->gid = current_egid();
	error = mmu_interval_notifier_insert(&segment->notifier, segment->mm, segment->start, call.size,
					     &notifier_operations);
	if (error) {
		kref_put(&segment->references, free_segment);
		return error;
	}

	call.segid = segment->id;
	spin_lock(&registry);
	process = own();
	if (process)
		list_add(&segment->list, &process->segments);
	spin_unlock(&registry);
	if (!process) {
		remove(segment);
		return -ENOENT;
	}
	return copy_to_user(argument, &call, sizeof(call)) ? -EFAULT : 0;
}

static long remove_call(void __user *argument)
{
	struct xpmem_cmd_remove call;
	struct process *owner;
	struct segment *segment;
	long error = 0;

	if (copy_from_user(&call, argument, sizeof(call)))
		return -EFAULT;
	spin_lock(&registry);
	segment = find_segment(call.segid, &owner);
	if (!segment)
		error = -ENOENT;
	else if (owner != own())
		error = -EACCES;
	else
		list_del(&segment->list);
	spin_unlock(&registry);
	if (!error)
		remove(segment);
	return error;
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

static long get(void __user *argument)
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

	spin_lock(&registry);
	segment = own() ? find_segment(call.segid, &owner) : NULL;
	if (segment)
		kref_get(&segment->references);
	spin_unlock(&registry);
	if (!segment) {
		kfree(permit);
		return -ENOENT;
	}
	kref_init(&permit->references);
	permit->id = new_id();
	permit->writes = call.flags == XPMEM_RDWR;
	permit->segment = segment;
	INIT_LIST_HEAD(&permit->attachments);
	if (!permitted(segment, permit->writes)) {
		kref_put(&permit->references, free_permit);
		return -EACCES;
	}

	call.apid = permit->id;
	spin_lock(&registry);
	process = own();
	if (process)
		list_add(&permit->list, &process->permits);
	spin_unlock(&registry);
	if (!process) {
		kref_put(&permit->references, free_permit);
		return -ENOENT;
	}
	return copy_to_user(argument, &call, sizeof(call)) ? -EFAULT : 0;
}

static long release_call(void __user *argument)
{
	struct xpmem_cmd_release call;
	struct process *owner;
	struct permit *permit;
	long error = 0;

	if (copy_from_user(&call, argument, sizeof(call)))
		return -EFAULT;
	spin_lock(&registry);
	permit = find_permit(call.apid, &owner);
	if (!permit)
		error = -ENOENT;
	else if (owner != own())
		error = -EACCES;
	else
		list_del(&permit->list);
	spin_unlock(&registry);
	if (!error)
		release(permit);
	return error;
}

/* Maps it, by way of device_mmap. */
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
	spin_lock(&registry);
	list_add(&attachment->list, &attaching);
	spin_unlock(&registry);
	place = ((unsigned long)segment->index << INDEX_SHIFT) + segment->start + call->offset;
	result = vm_mmap(file, call->vaddr, size, protection, MAP_SHARED | (call->vaddr ? MAP_FIXED : 0), place);
	kref_put(&attachment->references, free_attachment);
	return result;
}

static long attach(struct file *file, void __user *argument)
{
	struct xpmem_cmd_attach call;
	struct process *process, *owner;
	struct permit *permit = NULL;
	long result;

	if (copy_from_user(&call, argument, sizeof(call)))
		return -EFAULT;
	spin_lock(&registry);
	process = own();
	if (process)
		permit = find_permit(call.apid, &owner);
	if (permit && owner == process)
		kref_get(&permit->references);
	spin_unlock(&registry);
	if (!permit)
		return -ENOENT;
	if (owner != process)
		return -EACCES;
	result = map(file, permit, &call);
	kref_put(&permit->references, free_permit);
	if (IS_ERR_VALUE(result))
		return result;
	call.vaddr = result;
	if (!copy_to_user(argument, &call, sizeof(call)))
		return 0;
	vm_munmap(call.vaddr, PAGE_ALIGN(call.size));
	return -EFAULT;
}

static long detach(void __user *argument)
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

static long device_ioctl(struct file *file, unsigned int call, unsigned long value)
{
	void __user *argument = (void __user *)value;

	switch (call) {
	case XPMEM_CMD_VERSION:
		return XPMEM_VERSION;
	case XPMEM_CMD_MAKE:
		return make(argument);
	case XPMEM_CMD_REMOVE:
		return remove_call(argument);
	case XPMEM_CMD_GET:
		return get(argument);
	case XPMEM_CMD_RELEASE:
		return release_call(argument);
	case XPMEM_CMD_ATTACH:
		return attach(file, argument);
	case XPMEM_CMD_DETACH:
		return detach(argument);
	default:
		return -ENOTTY;
	}
}

static int device_open(struct inode *inode, struct file *file)
{
	struct process *fresh = kzalloc(sizeof(*fresh), GFP_KERNEL), *process;

	if (!fresh)
		return -ENOMEM;
	spin_lock(&registry);
	process = own();
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
		node = inode;
	}
	file->f_mapping = node->i_mapping;
	spin_unlock(&registry);
	kfree(fresh);
	return 0;
}

/* A process closes one of its descriptors, any of them, or ends: all that it has here ends. */
static int device_flush(struct file *file, fl_owner_t owner)
{
	struct process *process, *next;
	LIST_HEAD(permits);
	LIST_HEAD(segments);

	spin_lock(&registry);
	list_for_each_entry_safe(process, next, &processes, list)
		if (process->tgid == current->tgid)
			unlist(process, &permits, &segments);
	spin_unlock(&registry);
	tear_down(&permits, &segments);
	return 0;
}

/* The last descriptor of a file has gone, wherever it was, and so have its attachments. */
static int device_release(struct inode *inode, struct file *file)
{
	struct process *process = file->private_data;
	struct inode *last = NULL;
	LIST_HEAD(permits);
	LIST_HEAD(segments);
	bool ended;

	spin_lock(&registry);
	ended = !--process->files;
	if (ended)
		unlist(process, &permits, &segments);
	spin_unlock(&registry);
	tear_down(&permits, &segments);
	if (ended) {
		mmdrop(process->mm);
		kfree(process);
	}
	spin_lock(&registry);
	if (!--open_files)
		last = node;
	spin_unlock(&registry);
	if (last)
		iput(last);
	return 0;
}

static const struct file_operations device_operations = {
	.owner = THIS_MODULE,
	.open = device_open,
	.flush = device_flush,
	.release = device_release,
	.mmap = device_mmap,
	.unlocked_ioctl = device_ioctl,
	.llseek = noop_llseek,
};

static struct miscdevice device = {
	.minor = MISC_DYNAMIC_MINOR,
	.name = "xpmem",
	.mode = 0666,
	.fops = &device_operations,
};

module_misc_device(device);

MODULE_DESCRIPTION("A stand-in for XPMEM, for tests");
MODULE_LICENSE("GPL");
MODULE_VERSION("0.1.0");
