// SPDX-License-Identifier: GPL-2.0
/* Which regions there are. */
#include "private.h"

#include <linux/cred.h>
#include <linux/mman.h>
#include <linux/err.h>
#include <linux/spinlock.h>

static DEFINE_SPINLOCK(knem_registry);
static LIST_HEAD(regions);
/* A cookie never comes again, and none is 0. */
static u64 last_cookie;

void knem_enlist(struct region *region)
{
	spin_lock(&knem_registry);
	region->cookie = ++last_cookie;
	list_add(&region->list, &regions);
	spin_unlock(&knem_registry);
}

static struct region *with_cookie(u64 cookie)
{
	struct region *region;

	list_for_each_entry(region, &regions, list)
		if (region->cookie == cookie)
			return region;
	return NULL;
}

struct region *knem_find(u64 cookie, bool write)
{
	struct region *region;
	long error = 0;

	spin_lock(&knem_registry);
	region = with_cookie(cookie);
	if (!region)
		error = -EINVAL;
	else if (!uid_eq(region->uid, current_uid()))
		error = -EPERM;
	else if (!(region->protection & (write ? PROT_WRITE : PROT_READ)))
		error = -EACCES;
	else if (region->single_use)
		list_del(&region->list);
	else
		kref_get(&region->references);
	spin_unlock(&knem_registry);
	return error ? ERR_PTR(error) : region;
}

struct region *knem_unlist(struct opener *opener, u64 cookie)
{
	struct region *region;

	spin_lock(&knem_registry);
	region = with_cookie(cookie);
	if (region && region->opener == opener)
		list_del(&region->list);
	else
		region = NULL;
	spin_unlock(&knem_registry);
	return region;
}

void knem_unlist_all(struct opener *opener)
{
	struct region *region, *next;
	LIST_HEAD(ended);

	spin_lock(&knem_registry);
	list_for_each_entry_safe(region, next, &regions, list)
		if (region->opener == opener)
			list_move(&region->list, &ended);
	spin_unlock(&knem_registry);
	list_for_each_entry_safe(region, next, &ended, list)
		knem_put_region(region);
}
