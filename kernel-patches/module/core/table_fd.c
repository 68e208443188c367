// SPDX-License-Identifier: GPL-2.0
/*
 * Descriptors of tables of senders: the authority to use all that a table grants, and to change it.
 *
 * An address space that has no table takes the descriptor's by an ioctl; from then on it and all others that have this
 * table see the same indexes. Which of them rings what they tell each other.
 */
#include "private.h"
#include "uintr_core.h"

#include <linux/anon_inodes.h>
#include <linux/err.h>
#include <linux/fcntl.h>
#include <linux/fs.h>
#include <linux/module.h>

static int table_release(struct inode *inode, struct file *file)
{
	struct uintr_table *table = file->private_data;

	uintr_table_disown(table);
	uintr_table_put(table);
	return 0;
}

static long table_ioctl(struct file *file, unsigned int call, unsigned long argument)
{
	struct uintr_table *table = file->private_data;
	int error;

	if (call != UIPI_SET_TARGET_TABLE)
		return -ENOTTY;
	error = uintr_table_attach(table);
	if (error)
		return error;
	/* For this thread now; the others come to it by their first SENDUIPI, as would this one. */
	uintr_thread_send(table, GFP_KERNEL_ACCOUNT);
	return 0;
}

static const struct file_operations table_operations = {
	.owner = THIS_MODULE,
	.release = table_release,
	.unlocked_ioctl = table_ioctl,
	.llseek = noop_llseek,
};

int uintr_table_fd(void)
{
	struct uintr_table *table = uintr_table_make();
	int fd;

	if (IS_ERR(table))
		return PTR_ERR(table);
	uintr_table_own(uintr_table_get(table));
	fd = anon_inode_getfd("[uintr-table]", &table_operations, table, O_RDONLY | O_CLOEXEC);
	if (fd < 0) {
		uintr_table_disown(table);
		uintr_table_put(table);
	}
	return fd;
}
