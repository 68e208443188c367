// SPDX-License-Identifier: GPL-2.0
/* Copies between a region and the caller's memory. */
#include "private.h"

#include <linux/err.h>
#include <linux/highmem.h>
#include <linux/mm.h>
#include <linux/sched/signal.h>
#include <linux/uaccess.h>

/* Where a copy is in a region. */
struct place {
	const struct part *part;
	/* In the part. */
	u64 at;
};

static bool copy_in_page(struct page *page, unsigned long offset, char __user *local, unsigned long length, bool write)
{
	char *kernel = kmap_local_page(page);
	unsigned long left;

	if (write)
		left = copy_from_user(kernel + offset, local, length);
	else
		left = copy_to_user(local, kernel + offset, length);
	kunmap_local(kernel);
	return !left;
}

/* From one local segment, as much as that has; the region has as much from here on. */
static bool copy_segment(struct place *place, char __user *local, u64 length, bool write)
{
	while (length) {
		const struct part *part = place->part;
		u64 from_page = part->offset + place->at;
		unsigned long offset = offset_in_page(from_page);
		u64 bytes = min3(length, part->length - place->at, (u64)PAGE_SIZE - offset);

		if (!bytes) {
			place->part++;
			place->at = 0;
			continue;
		}
		if (fatal_signal_pending(current) ||
		    !copy_in_page(part->pages[from_page >> PAGE_SHIFT], offset, local, bytes, write))
			return false;
		cond_resched();
		local += bytes;
		place->at += bytes;
		length -= bytes;
	}
	return true;
}

static bool copy(struct region *region, u64 offset, const struct knem_cmd_param_iovec *segments, u64 length, bool write)
{
	struct place place = { .part = region->part, .at = offset };

	while (place.at > place.part->length) {
		place.at -= place.part->length;
		place.part++;
	}
	if (write)
		WRITE_ONCE(region->written, true);
	for (; length; segments++) {
		u64 bytes = min(length, segments->len);

		if (!copy_segment(&place, u64_to_user_ptr(segments->base), bytes, write))
			return false;
		length -= bytes;
	}
	return true;
}

long knem_inline_copy(void __user *argument)
{
	struct knem_cmd_inline_copy call;
	struct knem_cmd_param_iovec *segments;
	struct region *region;
	u64 length;

	if (copy_from_user(&call, argument, sizeof(call)))
		return -EFAULT;
	if (call.flags & ~KNEM_FLAG_PINLOCAL)
		return -EINVAL;
	segments = knem_segments(call.local_iovec_array, call.local_iovec_nr, &length);
	if (IS_ERR(segments))
		return PTR_ERR(segments);
	region = knem_find(call.remote_cookie, call.write);
	if (IS_ERR(region)) {
		kvfree(segments);
		return PTR_ERR(region);
	}
	call.current_status = KNEM_STATUS_SUCCESS;
	/* Beyond the region's end there is nothing to copy, which is no failure. */
	if (call.remote_offset < region->length) {
		length = min(length, region->length - call.remote_offset);
		if (length && !copy(region, call.remote_offset, segments, length, call.write))
			call.current_status = KNEM_STATUS_FAILED;
	}
	knem_put_region(region);
	kvfree(segments);
	return copy_to_user(argument, &call, sizeof(call)) ? -EFAULT : 0;
}
