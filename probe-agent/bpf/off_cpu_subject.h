/*
 * What a system call waits for, by its arguments: which file, peer, pipe or futex.
 */
#pragma once

#include "off_cpu_kept.h"

INLINE void describe_socket(struct file *file, struct subject *subject)
{
	struct socket *socket = GET(file, private_data);
	if (!socket)
		return;
	struct sock *sock = GET(socket, sk);
	if (!sock)
		return;
	subject->family = GET(sock, __sk_common.skc_family);
	subject->protocol = GET(sock, sk_protocol);
	if (subject->family == AF_INET) {
		u32 peer = GET(sock, __sk_common.skc_daddr);
		__builtin_memcpy(subject->peer, &peer, 4);
	} else if (subject->family == AF_INET6) {
		bpf_probe_read_kernel(subject->peer, 16,
			ADDRESS(sock, __sk_common.skc_v6_daddr));
	} else {
		return;
	}
	subject->peer_port = GET(sock, __sk_common.skc_dport);
	subject->own_port = GET(sock, __sk_common.skc_num);
}

INLINE void describe_descriptor(struct task_struct *task, u32 number, struct subject *subject)
{
	struct files_struct *files = GET(task, files);
	if (!files)
		return;
	struct fdtable *table = GET(files, fdt);
	if (!table || number >= GET(table, max_fds))
		return;
	struct file **open = GET(table, fd), *file = 0;
	bpf_probe_read_kernel(&file, sizeof(file), open + number);
	if (!file)
		return;
	struct inode *inode = GET(file, f_inode);
	if (!inode)
		return;
	subject->kind = GET(inode, i_mode) >> 12;
	subject->inode = GET(inode, i_ino);
	struct super_block *block = GET(inode, i_sb);
	subject->device = GET(block, s_dev);
	if (subject->kind == A_SOCKET)
		describe_socket(file, subject);
}

INLINE void describe(struct task_struct *task, s32 call, const u64 *arguments, struct subject *subject)
{
	u32 number = call;
	u32 *says_what = number < CALLS ? bpf_map_lookup_elem(&says, &number) : 0;
	subject->kind = NO_SUBJECT;
	if (!says_what)
		return;
	switch (*says_what) {
	case SAYS_DESCRIPTOR:
		describe_descriptor(task, arguments[0], subject);
		break;
	case SAYS_FUTEX:
		subject->kind = A_FUTEX;
		subject->inode = arguments[0];
		break;
	case SAYS_POLL:
		subject->kind = SEVERAL;
		subject->inode = arguments[1];
		break;
	}
}
