/* SPDX-License-Identifier: GPL-2.0 */
/*
 * /dev/knem for tests: copies from and to the memory of another process, by the user interface of KNEM. Here is what its
 * files share with each other, and with nobody else.
 *
 * Each open of the device for writing is an opener; what it makes are regions, pinned pages that have a cookie. All regions
 * stand in one list. A copy takes a reference there and holds no lock, so that whoever destroys a region meanwhile, or
 * ends, waits for nobody: the pages are given back with the last reference.
 *
 * There is one lock, knem_registry, of the list; nothing sleeps under it.
 */
#ifndef KNEM_PRIVATE_H
#define KNEM_PRIVATE_H

#include <linux/fs.h>
#include <linux/kref.h>
#include <linux/list.h>
#include <linux/mm_types.h>
#include <linux/types.h>
#include <linux/uidgid.h>

#include "knem_uapi.h"

/* Most parts of one region, or of one local end: an allocation of the kernel's is bounded. */
#define MAX_PARTS 4096u

struct opener {
	kuid_t uid;
};

/* ---- region.c ------------------------------------------------------------------------------------------------ */

/* A part of a region: whole pages, of which these bytes count. */
struct part {
	struct page **pages;
	unsigned long pinned;
	unsigned long offset;
	u64 length;
};

struct region {
	struct list_head list;
	/* Of the list, and of each copy. */
	struct kref references;
	struct opener *opener;
	kuid_t uid;
	u64 cookie;
	u64 length;
	u32 protection;
	bool single_use;
	/* Somebody has copied into it. */
	bool written;
	unsigned int parts;
	struct part part[];
};

void knem_put_region(struct region *region);
/* The user's list of segments, to be freed by kvfree. */
struct knem_cmd_param_iovec *knem_segments(u64 array, u32 number, u64 *length);
/* Calls. */
long knem_create(struct opener *opener, void __user *argument);
long knem_destroy(struct opener *opener, void __user *argument);

/* ---- registry.c ---------------------------------------------------------------------------------------------- */

/* Gives a region its cookie and its place. */
void knem_enlist(struct region *region);
/* For a copy, with a reference: of one that is for a single use, the list's. Else an errno. */
struct region *knem_find(u64 cookie, bool write);
/* Takes an opener's out of the list, with the list's reference; NULL: it has no such. */
struct region *knem_unlist(struct opener *opener, u64 cookie);
/* An opener is gone: all that it has. */
void knem_unlist_all(struct opener *opener);

/* ---- copy.c -------------------------------------------------------------------------------------------------- */

/* Call. */
long knem_inline_copy(void __user *argument);

#endif
