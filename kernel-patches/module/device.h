/* SPDX-License-Identifier: GPL-2.0 */
#ifndef UINTR_DEVICE_H
#define UINTR_DEVICE_H

int uintr_device_init(void);
void uintr_device_exit(void);

#endif
