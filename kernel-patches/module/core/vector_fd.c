// SPDX-License-Identifier: GPL-2.0
/*
 * Descriptors of vectors: the authority to ring one vector of one receiver.
 *
 * They are ordinary descriptors: inherited, sent over a socket, taken with pidfd_getfd by who may trace their owner.
 * They outlive the receiver, and then are good for nothing. They can be used for nothing else.
 */
#include "private.h"

#include <linux/anon_inodes.h>
#include <linux/fcntl.h>
#include <linux/fs.h>
#include <linux/module.h>
#include <linux/seq_file.h>
#include <linux/slab.h>

struct vector {
	struct uintr_receiver *receiver;
	unsigned int vector;
};

static int vector_release(struct inode *inode, struct file *file)
{
	struct vector *vector = file->private_data;

	uintr_receiver_put(vector->receiver);
	kfree(vector);
	return 0;
}

static void vector_show(struct seq_file *out, struct file *file)
{
	struct vector *vector = file->private_data;

	seq_printf(out, "uintr-vector:\t%u\nuintr-receiver:\t%s\n", vector->vector,
		   READ_ONCE(vector->receiver->active) ? "registered" : "gone");
}

static const struct file_operations vector_operations = {
	.owner = THIS_MODULE,
	.release = vector_release,
	.show_fdinfo = vector_show,
	.llseek = noop_llseek,
};

int uintr_vector_fd_new(struct uintr_receiver *receiver, unsigned int number)
{
	struct vector *vector = kzalloc(sizeof(*vector), GFP_KERNEL_ACCOUNT);
	int fd;

	if (!vector)
		return -ENOMEM;
	vector->receiver = uintr_receiver_get(receiver);
	vector->vector = number;
	fd = anon_inode_getfd("[uintr]", &vector_operations, vector, O_RDONLY | O_CLOEXEC);
	if (fd < 0) {
		uintr_receiver_put(receiver);
		kfree(vector);
	}
	return fd;
}

struct uintr_receiver *uintr_vector_of(struct file *file, unsigned int *number)
{
	struct vector *vector = file->private_data;

	if (file->f_op != &vector_operations)
		return NULL;
	*number = vector->vector;
	return vector->receiver;
}
