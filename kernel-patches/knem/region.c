// SPDX-License-Identifier: GPL-2.0
/* Regions: what an opener makes of parts of its memory, and destroys. */
#include "private.h"

#include <linux/mm.h>
#include <linux/mman.h>
#include <linux/overflow.h>
#include <linux/sched/signal.h>
#include <linux/slab.h>
#include <linux/uaccess.h>

/* Pages that are pinned in one go. */
#define AT_ONCE 512ul

static void free_region(struct kref *kref)
{
	struct region *region = container_of(kref, struct region, references);
	unsigned int i;

	for (i = 0; i < region->parts; i++) {
		struct part *part = &region->part[i];

		unpin_user_pages_dirty_lock(part->pages, part->pinned, READ_ONCE(region->written));
		kvfree(part->pages);
	}
	kvfree(region);
}

void knem_put_region(struct region *region)
{
	kref_put(&region->references, free_region);
}

struct knem_cmd_param_iovec *knem_segments(u64 array, u32 number, u64 *length)
{
	struct knem_cmd_param_iovec *segments;
	u32 i;

	if (number > MAX_PARTS)
		return ERR_PTR(-ENOMEM);
	segments = kvmalloc_array(max(number, 1u), sizeof(*segments), GFP_KERNEL);
	if (!segments)
		return ERR_PTR(-ENOMEM);
	if (copy_from_user(segments, u64_to_user_ptr(array), number * sizeof(*segments))) {
		kvfree(segments);
		return ERR_PTR(-EFAULT);
	}
	*length = 0;
	for (i = 0; i < number; i++) {
		/* Nobody has so much, and nothing below overflows. */
		if (segments[i].len > TASK_SIZE || segments[i].base > TASK_SIZE) {
			kvfree(segments);
			return ERR_PTR(-EFAULT);
		}
		*length += segments[i].len;
	}
	return segments;
}

static int pin(struct part *part, u64 base, u64 length, bool writes)
{
	unsigned long start = base & PAGE_MASK;
	unsigned long number = (PAGE_ALIGN(base + length) - start) >> PAGE_SHIFT;
	unsigned int flags = FOLL_LONGTERM | (writes ? FOLL_WRITE : 0);

	if (number > INT_MAX)
		return -ENOMEM;
	part->offset = base - start;
	part->length = length;
	part->pages = kvmalloc_array(number, sizeof(*part->pages), GFP_KERNEL | __GFP_NOWARN);
	if (!part->pages)
		return -ENOMEM;
	while (part->pinned < number) {
		int got = pin_user_pages_fast(start + (part->pinned << PAGE_SHIFT), min(number - part->pinned, AT_ONCE),
					      flags, part->pages + part->pinned);

		if (got <= 0 || fatal_signal_pending(current)) {
			part->pinned += max(got, 0);
			return -EFAULT;
		}
		part->pinned += got;
		cond_resched();
	}
	return 0;
}

long knem_create(struct opener *opener, void __user *argument)
{
	struct knem_cmd_create_region call;
	struct knem_cmd_param_iovec *segments;
	struct region *region;
	long error = 0;
	u64 length;
	u32 i;

	if (copy_from_user(&call, argument, sizeof(call)))
		return -EFAULT;
	if (call.flags & ~KNEM_FLAG_SINGLEUSE || call.protection & ~(PROT_READ | PROT_WRITE))
		return -EINVAL;
	segments = knem_segments(call.iovec_array, call.iovec_nr, &length);
	if (IS_ERR(segments))
		return PTR_ERR(segments);
	region = kvzalloc(struct_size(region, part, call.iovec_nr), GFP_KERNEL);
	if (!region) {
		kvfree(segments);
		return -ENOMEM;
	}
	kref_init(&region->references);
	region->opener = opener;
	region->uid = opener->uid;
	region->length = length;
	region->protection = call.protection;
	region->single_use = call.flags & KNEM_FLAG_SINGLEUSE;
	for (i = 0; i < call.iovec_nr && !error; i++)
		if (segments[i].len)
			error = pin(&region->part[region->parts++], segments[i].base, segments[i].len,
				    call.protection & PROT_WRITE);
	kvfree(segments);
	if (error) {
		knem_put_region(region);
		return error;
	}
	/* From then on it is anybody's, and may be gone at once: what is told of it was read before. */
	kref_get(&region->references);
	knem_enlist(region);
	call.cookie = region->cookie;
	knem_put_region(region);
	if (copy_to_user(argument, &call, sizeof(call))) {
		region = knem_unlist(opener, call.cookie);
		if (region)
			knem_put_region(region);
		return -EFAULT;
	}
	return 0;
}

long knem_destroy(struct opener *opener, void __user *argument)
{
	struct region *region;
	u64 cookie;

	if (copy_from_user(&cookie, argument, sizeof(cookie)))
		return -EFAULT;
	region = knem_unlist(opener, cookie);
	if (!region)
		return -EINVAL;
	knem_put_region(region);
	return 0;
}
