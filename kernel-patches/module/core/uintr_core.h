/* SPDX-License-Identifier: GPL-2.0 */
/*
 * User interrupts: what a front end (a device, a set of system calls) may ask of the core.
 *
 * Every function below acts on the calling thread and its address space, may sleep, and returns 0 or more, or a
 * negative errno. The core keeps all authority in vector descriptors: who holds one may register as its sender.
 *
 *   hardware.c   model-specific registers, CR4, the formats that the processor reads
 *   receiver.c   one registration of a receiver: the descriptor that senders post to
 *   table.c      the senders of one address space: the table that SENDUIPI reads
 *   thread.c     what a thread carries from CPU to CPU, and when it gives it up
 *   hooks.c      the events of the stock kernel by which the core learns of exec, first sends, hotplug and suspend
 *   vector_fd.c  descriptors of vectors
 *   table_fd.c   descriptors of tables of senders (in the kernel, not in the module)
 *   burial.c     freeing what died where nothing may sleep
 *   calls.c      the functions below
 */
#ifndef UINTR_CORE_H
#define UINTR_CORE_H

#include <linux/types.h>

struct uintr_info;
struct uintr_stats;

/* Before anything else. Refuses, with a message, on a machine or kernel that cannot do it safely. */
int uintr_core_init(void);
/* When nothing is registered and no table or descriptor is left. Afterwards no CPU knows of user interrupts. */
void uintr_core_exit(void);

/* Handler and stack as in uintr_uapi.h; stack 0: the interrupted stack. */
int uintr_register_handler(u64 handler, u64 stack, u64 stack_size);
int uintr_unregister_handler(void);
int uintr_set_stack(u64 stack, u64 stack_size);
/* A new close-on-exec descriptor of one of the calling thread's vectors. */
int uintr_vector_fd(unsigned int vector);
/* An index for SENDUIPI. */
int uintr_register_sender(int fd);
int uintr_register_self(unsigned int vector);
int uintr_unregister_sender(unsigned int index);
/* A new close-on-exec descriptor of the address space's table, made if there is none; another address space takes the
 * table by UIPI_SET_TARGET_TABLE.
 */
int uintr_table_fd(void);

void uintr_read_info(struct uintr_info *info);
int uintr_read_stats(struct uintr_stats *stats);

#endif
