/*
 * Attempts to connect by TCP, and segments that are sent again: for latency.bpf.c.
 */
#pragma once

#include "kernel.h"
#include "scope.h"
#include "latency_counted.h"

#define IPPROTO_TCP 6

enum { TCP_ESTABLISHED = 1, TCP_SYN_SENT = 2, TCP_SYN_RECV = 3, TCP_CLOSE = 7 };

struct sock___errors {
	int sk_err;
	struct socket *sk_socket;
} KERNEL;

/* A socket and its inode are one piece of memory. */
struct socket_alloc {
	struct socket socket;
	struct inode vfs_inode;
} KERNEL;

struct peer {
	/* Of IPv4 the first four bytes. */
	u8 address[16];
	u16 family;
	/* In the order of the machine. */
	u16 port;
};

/* The order of members is that of `Attempt` in tallies.rs. */
struct connect_key {
	struct process_key process;
	struct peer peer;
	/* The kernel's error number; 0 where the program closed it. */
	u32 error;
	u32 is_established;
	u32 padding;
};

struct connecting {
	u64 since_ns;
	struct process_key process;
	struct peer peer;
	char name[16];
};

struct {
	MAP(HASH, 8192);
	KEY(u64);
	VALUE(struct connecting);
} connecting SEC(".maps");

struct connected {
	char name[16];
	struct counted took;
};

struct {
	MAP(HASH, 2048);
	KEY(struct connect_key);
	VALUE(struct connected);
} connects SEC(".maps");

struct {
	MAP(PERCPU_ARRAY, 1);
	KEY(u32);
	VALUE(struct connected);
} blank_connected SEC(".maps");

struct resent_key {
	u64 inode;
	struct peer peer;
	u16 local_port;
	u16 is_handshake;
};

struct {
	MAP(HASH, 2048);
	KEY(struct resent_key);
	VALUE(u64);
} resent SEC(".maps");

INLINE void peer_of(struct peer *peer, struct sock *socket)
{
	peer->family = GET(socket, __sk_common.skc_family);
	u16 port = GET(socket, __sk_common.skc_dport);
	peer->port = (u16)(port << 8 | port >> 8);
	if (peer->family == AF_INET6)
		bpf_probe_read_kernel(peer->address, 16, ADDRESS(socket, __sk_common.skc_v6_daddr));
	else
		bpf_probe_read_kernel(peer->address, 4, ADDRESS(socket, __sk_common.skc_daddr));
}

INLINE void attempt_ended(struct connecting *attempt, u32 error, bool is_established)
{
	struct connect_key key = {};
	key.process = attempt->process;
	key.peer = attempt->peer;
	key.error = error;
	key.is_established = is_established;
	struct connected *row = bpf_map_lookup_elem(&connects, &key);
	if (!row) {
		u32 first = 0;
		struct connected *zeroes = bpf_map_lookup_elem(&blank_connected, &first);
		if (!zeroes)
			return;
		bpf_map_update_elem(&connects, &key, zeroes, BPF_NOEXIST);
		row = bpf_map_lookup_elem(&connects, &key);
		if (!row) {
			lose(LOST_CONNECTS);
			return;
		}
	}
	__builtin_memcpy(row->name, attempt->name, sizeof(row->name));
	count(&row->took, since(attempt->since_ns, bpf_ktime_get_ns()));
}

SEC("tp_btf/inet_sock_set_state")
int changed_state(u64 *context)
{
	u64 key = context[0];
	struct sock *socket = (void *)context[0];
	int before = (int)context[1];
	int after = (int)context[2];
	if (before != TCP_SYN_SENT && after != TCP_SYN_SENT)
		return 0;
	if (GET(socket, sk_protocol) != IPPROTO_TCP)
		return 0;
	if (after == TCP_SYN_SENT) {
		/* Whoever calls connect does this itself. */
		struct task_struct *task = bpf_get_current_task_btf();
		if (!is_watched(task))
			return 0;
		struct connecting attempt = { .since_ns = bpf_ktime_get_ns() };
		attempt.process = key_of(task);
		name_of(attempt.name, task);
		peer_of(&attempt.peer, socket);
		if (bpf_map_update_elem(&connecting, &key, &attempt, BPF_ANY))
			lose(LOST_CONNECTS);
		return 0;
	}
	struct connecting *attempt = bpf_map_lookup_elem(&connecting, &key);
	if (!attempt)
		return 0;
	if (after == TCP_CLOSE) {
		struct sock___errors *errors = (void *)socket;
		attempt_ended(attempt, (u32)GET(errors, sk_err), false);
	} else {
		attempt_ended(attempt, 0, true);
	}
	bpf_map_delete_elem(&connecting, &key);
	return 0;
}

SEC("tp_btf/tcp_retransmit_skb")
int resent_segment(u64 *context)
{
	struct sock *socket = (void *)context[0];
	struct resent_key key = {};
	peer_of(&key.peer, socket);
	key.local_port = GET(socket, __sk_common.skc_num);
	u8 state = 0;
	READ_INTO(state, socket, __sk_common.skc_state);
	key.is_handshake = state == TCP_SYN_SENT || state == TCP_SYN_RECV;
	struct sock___errors *parts = (void *)socket;
	struct socket_alloc *holder = (void *)GET(parts, sk_socket);
	if (holder)
		READ_INTO(key.inode, holder, vfs_inode.i_ino);
	u64 *found = bpf_map_lookup_elem(&resent, &key);
	if (found) {
		__sync_fetch_and_add(found, 1);
		return 0;
	}
	u64 one = 1;
	if (!bpf_map_update_elem(&resent, &key, &one, BPF_NOEXIST))
		return 0;
	found = bpf_map_lookup_elem(&resent, &key);
	if (found)
		__sync_fetch_and_add(found, 1);
	else
		lose(LOST_RESENT);
	return 0;
}
